// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/fields.h"

namespace trainer {

/// A small recipe with every kind of key, for the tests of this folder.
struct Sample {
  struct Optimizer : Component {
    double lr = 0.1;
  };
  struct Sgd : Optimizer {
    double momentum = 0;
    bool nesterov = false;
    void declare(Fields& fields) override {
      fields.add("lr", &lr, "learning rate").above(0);
      fields.add("momentum", &momentum, "weight of the past").at_least(0).below(1);
      fields.add("nesterov", &nesterov, "look ahead");
    }
  };
  struct Adam : Optimizer {
    std::vector<double> betas = {0.9, 0.999};
    void declare(Fields& fields) override {
      fields.add("lr", &lr, "learning rate").above(0);
      fields.add("betas", &betas, "decay of the moments").at_least(0).below(1);
    }
  };
  struct Layer : Component {};
  struct Relu : Layer {
    void declare(Fields&) override {}
  };
  struct Conv : Layer {
    int64_t out_channels = 0;
    Pair kernel = {3, 3};
    void declare(Fields& fields) override {
      fields.add("out_channels", &out_channels, "channels made").at_least(1).required();
      fields.add("kernel", &kernel, "size").at_least(1);
    }
  };
  struct Dropout : Layer {
    double p = 0.5;
    void declare(Fields& fields) override { fields.add("p", &p, "chance").at_least(0).below(1).bare(); }
  };

  static Registry<Optimizer> optimizers() {
    return {{"sgd", "plain", [] { return std::make_unique<Sgd>(); }},
            {"adam", "moments", [] { return std::make_unique<Adam>(); }}};
  }
  static Registry<Layer> layers() {
    return {{"relu", "", [] { return std::make_unique<Relu>(); }},
            {"conv2d", "", [] { return std::make_unique<Conv>(); }},
            {"dropout", "", [] { return std::make_unique<Dropout>(); }}};
  }

  void declare(Fields& fields) {
    fields.add("version", &version, "of the format").at_least(1);
    fields.section("run", "the run", [this](Fields& run) {
      run.add("name", &name, "what it is called").does_not_affect_results();
      run.add("seed", &seed, "of all randomness").at_least(0);
    });
    fields
        .section("device", "the device to run on",
                 [this](Fields& device) { device.add("threads", &threads, "cores").at_least(1); })
        .does_not_affect_results();
    fields.section("data", "the data", [this](Fields& data) {
      data.add("train", &train, "training files").required();
      data.add("format", &format, "how it is stored").one_of({"idx", "synthetic"});
    });
    fields.section("training", "the loop", [this](Fields& training) {
      training.add("max_duration", &max_duration, "how long").at_least(1);
      training.add("micro_batch_size", &micro_batch_size, "what fits").at_least(1);
      training.add("memory", &memory, "at most");
      training.add("metrics", &metrics, "what is measured").one_of({"top1", "top5"});
    });
    fields.component("optimizer", optimizer, optimizers(), "how parameters move");
    fields.components("model", model, layers(), "the layers").required();
  }

  int64_t version = 1, seed = 0;
  std::optional<int64_t> threads, micro_batch_size;
  std::string name = "unnamed", train, format = "idx";
  Duration max_duration{10, Duration::Unit::epochs};
  std::optional<ByteSize> memory;
  std::vector<std::string> metrics = {"top1"};
  std::unique_ptr<Optimizer> optimizer = std::make_unique<Sgd>();
  std::vector<std::unique_ptr<Layer>> model;
};

/// A sample read from text, with the problems found.
struct Read {
  explicit Read(const std::string& text, const std::vector<std::string>& overrides = {}) {
    root = parse_yaml(text, "r.yaml", diagnostics);
    int number = 0;
    for (const std::string& argument : overrides) apply_override(root, argument, ++number, diagnostics);
    sample.declare(fields);
    fields.read(root, "", diagnostics);
  }
  /// The only problem; all of them if there is not exactly one.
  std::string problem() const {
    std::string all;
    for (const std::string& text : diagnostics.problems()) all += all.empty() ? text : "\n" + text;
    return all;
  }

  Sample sample;
  Fields fields;
  Diagnostics diagnostics;
  Value root;
};

/// The text with the first `from`, which must occur, replaced.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// A recipe that reads without a problem.
inline const std::string kGoodRecipe = R"(version: 1
run: {name: mnist, seed: 7}
data:
  train: digits
  format: idx
training:
  max_duration: 5ep
  micro_batch_size: 32
  memory: 2GiB
  metrics: [top1, top5]
optimizer:
  name: sgd
  lr: 1e-2
  momentum: 0.9
model:
  - conv2d: {out_channels: 8, kernel: [3, 5]}
  - relu
  - dropout:
      p: 0.25
)";

}  // namespace trainer
