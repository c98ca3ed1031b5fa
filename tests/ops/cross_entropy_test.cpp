// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/cross_entropy.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include "tests/catch.h"

#include "cpu/backend.h"
#include "tests/ops/harness.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr const char* kEntry = "train_step";

std::vector<Backend> both() {
  std::vector<Backend> backends;
  backends.push_back(make_reference_backend());
  backends.push_back(make_cpu_backend(2));
  return backends;
}

/// Loss and accuracies of logits that a test fills in.
Program evaluation(int64_t samples, int64_t classes) {
  Program program;
  program.entries.emplace_back(kEntry);
  Builder build(program, program.entries[0]);
  const TensorId logits = program.input("logits", {{samples, classes}, DType::f32});
  const TensorId labels = program.input("labels", {{samples}, DType::i32});
  const TensorId weights = program.input("weights", {{samples}, DType::f32});
  auto& outputs = program.entries[0].outputs;
  outputs.push_back({"loss", build.emit<CrossEntropy>({logits, labels, weights}, 0.0)});
  outputs.push_back({"top1", build.emit<TopK>({logits, labels, weights}, 1)});
  outputs.push_back({"top2", build.emit<TopK>({logits, labels, weights}, 2)});
  return program;
}

}  // namespace

TEST_CASE("cross entropy has the right values and gradient, with and without smoothing") {
  for (const Shape& shape : {Shape{1, 2}, Shape{3, 31}, Shape{33, 10}, Shape{2, 1000}}) {
    for (const double smoothing : {0.0, 0.1, 0.5}) {
      check_program(fmt::format("cross_entropy {}", to_string(shape)), [&](Sketch& sketch) {
        const TensorId logits = sketch.parameter("logits", shape);
        const TensorId labels = sketch.integers("labels", shape[0], shape[1]);
        const TensorId weights = sketch.input("weights", {shape[0]}, Values::positive);
        sketch.output("loss", sketch.build().emit<CrossEntropy>({logits, labels, weights}, smoothing));
      });
    }
  }
}

TEST_CASE("cross entropy of mixed labels has the right values and gradient") {
  for (const Shape& shape : {Shape{1, 2}, Shape{3, 31}, Shape{33, 10}}) {
    for (const double smoothing : {0.0, 0.1}) {
      check_program(fmt::format("mixed cross_entropy {}", to_string(shape)), [&](Sketch& sketch) {
        const TensorId logits = sketch.parameter("logits", shape);
        const TensorId labels = sketch.integers("labels", shape[0], shape[1]),
                       others = sketch.integers("others", shape[0], shape[1]);
        const TensorId weights = sketch.input("weights", {shape[0]}, Values::positive),
                       mix_weights = sketch.input("mix_weights", {shape[0]}, Values::positive);
        for (float& weight : sketch.values["mix_weights"]) weight -= 0.5f;
        sketch.values["mix_weights"][0] = 1;
        sketch.output("loss", sketch.build().emit<CrossEntropy>(
                                  {logits, labels, weights, others, mix_weights}, smoothing));
      });
    }
  }
}

TEST_CASE("cross entropy per token of a sequence has the right values and gradient, the metric beside it") {
  for (const Shape& shape : {Shape{1, 1, 2}, Shape{3, 7, 5}, Shape{2, 33, 31}, Shape{5, 3, 300}}) {
    for (const double smoothing : {0.0, 0.2}) {
      check_program(fmt::format("cross_entropy {}", to_string(shape)), [&](Sketch& sketch) {
        const TensorId logits = sketch.parameter("logits", shape);
        const TensorId labels = sketch.integers("labels", {shape[0], shape[1]}, shape[2]);
        const TensorId weights = sketch.input("weights", {shape[0]}, Values::positive);
        sketch.output("loss", sketch.build().emit<CrossEntropy>({logits, labels, weights}, smoothing));
        sketch.output("top1", sketch.build().emit<TopK>({logits, labels, weights}, 1));
      });
    }
  }
}

TEST_CASE("cross entropy per pixel has the right values and gradient, the metric beside it") {
  for (const Shape& shape :
       {Shape{1, 2, 1, 1}, Shape{3, 5, 3, 7}, Shape{2, 31, 1, 33}, Shape{2, 3, 31, 33}}) {
    for (const double smoothing : {0.0, 0.2}) {
      check_program(fmt::format("cross_entropy {}", to_string(shape)), [&](Sketch& sketch) {
        const TensorId logits = sketch.parameter("logits", shape);
        const TensorId labels = sketch.integers("labels", Shape{shape[0], shape[2], shape[3]}, shape[1]);
        const TensorId weights = sketch.input("weights", {shape[0]}, Values::positive);
        sketch.output("top1", sketch.build().emit<TopK>({logits, labels, weights}, 1));
        sketch.output("top2", sketch.build().emit<TopK>({logits, labels, weights}, 2));
        sketch.output("loss", sketch.build().emit<CrossEntropy>({logits, labels, weights}, smoothing));
      });
    }
  }
}

TEST_CASE("per pixel: the mean over pixels, NaN reaches the loss, a sample of weight 0 counts for nothing") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Program program;
  program.entries.emplace_back(kEntry);
  Builder build(program, program.entries[0]);
  const TensorId logits = program.input("logits", {{2, 2, 1, 2}, DType::f32});
  const TensorId labels = program.input("labels", {{2, 1, 2}, DType::i32});
  const TensorId weights = program.input("weights", {{2}, DType::f32});
  program.entries[0].outputs = {{"loss", build.emit<CrossEntropy>({logits, labels, weights}, 0.0)},
                                {"top1", build.emit<TopK>({logits, labels, weights}, 1)}};
  const auto cpu = make_cpu_backend(2);
  Session session(program, cpu);
  // Of the first sample one pixel is right; the second's equal logits make its label, the lower class, a hit.
  session.set({{"logits", {0, 1, 0, 2, 5, 5, 5, 5}}, {"labels", {0, 0, 0, 0}}, {"weights", {1, 0.5}}});
  session.run(kEntry);
  const double right = std::log(2.0), wrong = std::log(1 + std::exp(1.0));
  CHECK(session.output(kEntry, "loss")[0] == Approx((right + wrong) / 2 + 0.5 * std::log(2.0)));
  CHECK(session.output(kEntry, "top1")[0] == 0.5 + 0.5);
  session.set({{"logits", {0, 1, 0, 2, nan, nan, 0, 0}}, {"weights", {1, 0}}});
  session.run(kEntry);
  CHECK(session.output(kEntry, "loss")[0] == Approx((right + wrong) / 2));
  CHECK(session.output(kEntry, "top1")[0] == 0.5);
  session.set({{"logits", {0, 1, 0, nan, 0, 0, 0, 0}}});
  session.run(kEntry);
  CHECK(std::isnan(session.output(kEntry, "loss")[0]));
}

TEST_CASE("a single class has no loss and no gradient") {
  Program program;
  program.entries.emplace_back(kEntry);
  Builder build(program, program.entries[0]);
  const TensorId one = program.input("one", {{1}, DType::f32}),
                 logits = program.input("logits", {{3, 1}, DType::f32});
  const TensorId labels = program.input("labels", {{3}, DType::i32});
  const TensorId weights = program.input("weights", {{3}, DType::f32});
  const auto loss = build.emit_all(std::make_shared<CrossEntropy>(0.1), {logits, labels, weights});
  program.entries[0].outputs = {{"loss", loss[CrossEntropy::kLoss]},
                                {"gradient", build.emit<CrossEntropyBackward>(
                                                 {one, logits, labels, weights, kNone, kNone,
                                                  loss[CrossEntropy::kLargest], loss[CrossEntropy::kExpSum]},
                                                 0.1)}};
  for (const auto& backend : both()) {
    Session session(program, backend);
    session.set({{"one", {1}}, {"logits", {-3, 0, 7}}, {"labels", {0, 0, 0}}, {"weights", {1, 2, 3}}});
    session.run(kEntry);
    CHECK(std::abs(session.output(kEntry, "loss")[0]) < 1e-5);
    for (double value : session.output(kEntry, "gradient")) CHECK(std::abs(value) < 1e-6);
  }
}

TEST_CASE("large logits neither overflow nor lose the loss") {
  for (const auto& backend : both()) {
    INFO(backend.planner->name());
    Session session(evaluation(2, 3), backend);
    session.set({{"logits", {1e4f, 0, -1e4f, 3e38f, -3e38f, 0}}, {"labels", {1, 0}}, {"weights", {0.5f, 1}}});
    session.run(kEntry);
    CHECK(session.output(kEntry, "loss")[0] == Approx(5000));
  }
}

TEST_CASE("a sample of weight 0 counts for nothing, whatever it holds") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto cpu = make_cpu_backend(2);
  Session session(evaluation(2, 2), cpu);
  session.set({{"logits", {0, 0, nan, nan}}, {"labels", {1, 0}}, {"weights", {1, 0}}});
  session.run(kEntry);
  CHECK(session.output(kEntry, "loss")[0] == Approx(std::log(2.0)));
  CHECK(session.output(kEntry, "top2")[0] == 1);
}

TEST_CASE("a NaN among the logits reaches the loss and is never a hit") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto cpu = make_cpu_backend(2);
  for (size_t place = 0; place < 3; ++place) {
    std::vector<float> logits{1, 2, 3};
    logits[place] = nan;
    Session session(evaluation(1, 3), cpu);
    session.set({{"logits", logits}, {"labels", {static_cast<float>(place)}}, {"weights", {1}}});
    session.run(kEntry);
    CHECK(std::isnan(session.output(kEntry, "loss")[0]));
    CHECK(session.output(kEntry, "top1")[0] == 0);
  }
}

TEST_CASE("of equal logits the lower class comes first") {
  for (const auto& backend : both()) {
    INFO(backend.planner->name());
    Session session(evaluation(4, 4), backend);
    session.set({{"logits", {1, 1, 1, 1, 0, 2, 2, 1, 0, 2, 2, 1, 5, 4, 3, 2}},
                 {"labels", {0, 1, 2, 3}},
                 {"weights", {1, 2, 4, 8}}});
    session.run(kEntry);
    CHECK(session.output(kEntry, "top1")[0] == 1 + 2);
    CHECK(session.output(kEntry, "top2")[0] == 1 + 2 + 4);
  }
}

TEST_CASE("accuracies of both backends agree") {
  for (uint64_t seed : {1, 2, 3}) {
    check_cpu(
        [](Sketch& sketch) {
          const TensorId logits = sketch.parameter("logits", {65, 31});
          const TensorId labels = sketch.integers("labels", 65, 31),
                         weights = sketch.input("weights", {65}, Values::positive);
          for (int64_t k : {1, 5, 31}) {
            sketch.output(fmt::format("top{}", k), sketch.build().emit<TopK>({logits, labels, weights}, k));
          }
          sketch.output("loss", sketch.build().emit<CrossEntropy>({logits, labels, weights}, 0.0));
        },
        seed);
  }
}
