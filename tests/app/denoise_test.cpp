// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

constexpr const char* kDenoiser = R"(version: 1
run: {name: denoiser, seed: 5}
model:
  input: [3, 6, 7]
  layers:
    - noise: {gaussian: 40, salt_and_pepper: 0.02}
    - conv2d: {out_channels: 8, kernel_size: 3, padding: 1}
    - relu
    - conv2d: {out_channels: 3, kernel_size: 3, padding: 1}
data: {format: synthetic, synthetic: {train_samples: 60, val_samples: 31}}
training: {max_duration: 6ep, global_batch_size: 12}
loss: mse
optimizer: {name: adam, lr: 0.01}
validation: {interval: 2ep, metrics: [psnr]}
)";

class Denoiser {
 public:
  Denoiser() { workspace.write("r.yaml", kDenoiser); }

  Outcome run(const std::string& words, int code = 0) const {
    Outcome outcome = run_shell("\"$TRAINER\" " + words, workspace.path());
    INFO(words << ": " << outcome.errors);
    REQUIRE(outcome.code == code);
    return outcome;
  }
  void train(const std::string& name, const std::string& more = "") const {
    run("train --config r.yaml run.output_dir=" + name + " " + more);
  }
  json evaluated(const std::string& words) const { return json::parse(run("eval --json " + words).output); }
  std::string model(const std::string& name) const { return workspace.read(name + "/model.safetensors"); }

  Workspace workspace;
};

}  // namespace

TEST_CASE("a network learns to remove noise; its ratio is the same in any batches, and in each evaluation") {
  const Denoiser denoiser;
  denoiser.train("a");
  const std::vector<double> losses = losses_in(denoiser.workspace.read("a/metrics.jsonl"), "validation");
  REQUIRE(losses.size() == 3);
  CHECK(losses[2] < losses[0]);
  const json summary = json::parse(denoiser.workspace.read("a/summary.json"))["validation"]["last"];
  const double psnr = summary["psnr"];
  CHECK(psnr > 8);
  CHECK(psnr < 60);
  for (const char* more :
       {"", " training.micro_batch_size=1", " training.micro_batch_size=3", " device.threads=1"}) {
    const json again = denoiser.evaluated(std::string("--config r.yaml --weights a") + more);
    INFO(more);
    CHECK(again["psnr"].get<double>() == Approx(psnr).epsilon(1e-6));
    CHECK(again["loss"].get<double>() == Approx(losses[2]).epsilon(1e-6));
  }
  // Without noise the same network reads other images, and other noise gives another ratio.
  const auto other = [&](const std::string& more) {
    return denoiser.evaluated("--config r.yaml --weights a --as-written " + more)["psnr"].get<double>();
  };
  CHECK(std::abs(other("model.layers[0].noise.gaussian=0") - psnr) > 0.01);
  CHECK(std::abs(other("model.layers[0].noise.gaussian=80") - psnr) > 0.01);
}

TEST_CASE("noise in training is the same in any micro-batches, for any workers, and after a resume") {
  const Denoiser denoiser;
  denoiser.train("whole");
  denoiser.train("alike", "data.workers=3 data.prefetch=4");
  CHECK(denoiser.model("alike") == denoiser.model("whole"));
  denoiser.train("seed", "run.seed=6");
  CHECK(denoiser.model("seed") != denoiser.model("whole"));
  const std::vector<double> whole = losses_in(denoiser.workspace.read("whole/metrics.jsonl"), "train");
  denoiser.train("parts", "training.micro_batch_size=1");
  const std::vector<double> parts = losses_in(denoiser.workspace.read("parts/metrics.jsonl"), "train");
  REQUIRE(parts.size() == whole.size());
  for (size_t i = 0; i < whole.size(); ++i) CHECK(parts[i] == Approx(whole[i]).epsilon(1e-5));
  // Stopped in the middle of an epoch, with other micro-batches' worth of steps before and after.
  denoiser.train("stopped",
                 "checkpoint.interval=1ba training.max_duration=13ba lr_scheduler.name=constant "
                 "run.allow_changes='[training.max_duration]'");
  denoiser.train("stopped",
                 "checkpoint.interval=1ba lr_scheduler.name=constant "
                 "run.allow_changes='[training.max_duration]'");
  denoiser.train("straight",
                 "checkpoint.interval=1ba lr_scheduler.name=constant "
                 "run.allow_changes='[training.max_duration]'");
  CHECK(denoiser.model("stopped") == denoiser.model("straight"));
}

TEST_CASE("prediction adds no noise to the images that it is given, and writes the restored ones") {
  const Denoiser denoiser;
  denoiser.train("a");
  const std::string one = denoiser.run("predict a --images first").output,
                    two = denoiser.run("predict a --images second").output;
  CHECK(lines_of(one).size() == 31);
  for (int i = 0; i < 31; ++i) {
    const std::string file = "/sample-" + std::to_string(i) + ".png";
    CHECK(denoiser.workspace.read("first" + file) == denoiser.workspace.read("second" + file));
  }
  // A network that copies what it reads: with noise its prediction would differ from the image.
  double mse = 0;
  const std::string copies =
      "'model.layers=[noise: 40, conv2d: {out_channels: 3, kernel_size: 1, groups: 3}]' ";
  denoiser.run("train --config r.yaml run.output_dir=copy optimizer.lr=0.05 training.max_duration=300ba " +
               copies);
  for (const std::string& line : lines_of(denoiser.run("predict copy").output))
    mse += json::parse(line).at("mse").get<double>() / 31;
  CHECK(mse < 0.5 * denoiser.evaluated("copy")["loss"].get<double>());
}

TEST_CASE("noise that no image can have, or that has no place, is refused") {
  const Denoiser denoiser;
  const auto refused = [&](const std::string& more, const std::string& message) {
    CHECK_THAT(denoiser.run("train --config r.yaml run.output_dir=x " + more, 78).errors,
               ContainsSubstring(message));
  };
  refused("model.layers[0].noise.gaussian=-1", "must be at least 0 and at most 255, got -1");
  refused("model.layers[0].noise.salt_and_pepper=1.5", "must be at least 0 and at most 1, got 1.5");
  refused("'model.layers=[noise]'", "adds nothing; write gaussian, salt_and_pepper or both");
  refused("'validation.metrics=[top1]'",
          "top1 is not measured in reconstruction (loss.name: mse); set validation.metrics to some of: psnr");
}

}  // namespace trainer
