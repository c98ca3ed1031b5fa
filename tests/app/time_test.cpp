// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/app/command.h"
#include "tests/app/images.h"
#include "tests/catch.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using Strings = std::vector<std::string>;

// The data does not exist: nothing looks for it.
constexpr const char* kTimedImages = R"(version: 1
model:
  input: [1, 8, 8]
  layers:
    - conv2d: {out_channels: 4, kernel_size: 3, padding: 1}
    - batch_norm
    - relu
    - flatten
    - linear: {name: head, out_features: 5}
data:
  format: image_folder
  train: gone
  val: gone
  augment: [random_resized_crop: 8]
  eval_transform: [resize: 8, center_crop: 8]
training: {max_duration: 3ep, global_batch_size: 12, micro_batch_size: 4}
optimizer: {name: sgd, lr: 1.0e+6, momentum: 0.9}
)";

constexpr const char* kTimedTokens = R"(version: 1
model:
  input: [12]
  input_kind: tokens
  layers:
    - embedding: {name: wte, vocab_size: 40, features: 8}
    - linear: 24
    - attention: {heads: 2, causal: true}
    - linear: {name: head, out_features: 40}
data: {format: tokens, train: gone.bin}
training: {max_duration: 10ba, global_batch_size: 4}
validation: {metrics: []}
)";

json timed(const Workspace& workspace, Strings words) {
  words.insert(words.begin(), "time");
  words.emplace_back("--json");
  const Outcome outcome = run_trainer(words, workspace.path());
  INFO(outcome.errors);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.errors.empty());
  return json::parse(outcome.output);
}

/// The sum over all layers.
double seconds_in(const json& timing, const std::string& phase) {
  double sum = 0;
  for (const json& layer : timing["layers"]) sum += layer.at(phase + "_seconds").get<double>();
  return sum;
}

bool has_layer(const json& timing, const std::string& place) {
  return std::ranges::any_of(timing["layers"], [&](const json& layer) { return layer["layer"] == place; });
}

void check_times(const json& timing, const std::string& sample) {
  const json& seconds = timing["seconds"];
  CHECK(seconds["p50"].get<double>() > 0);
  CHECK(seconds["p50"] <= seconds["p95"]);
  CHECK(seconds["p95"] <= seconds["p99"]);
  const double batch = timing[sample == "token" ? "sequences" : "batch"];
  CHECK(timing[sample + "s_per_second"].get<double>() ==
        Approx(batch / seconds["mean"].get<double>()).epsilon(1e-6));
}

}  // namespace

TEST_CASE("time: a training step is the recipe's, by layer and phase, and nothing is written") {
  const Workspace workspace;
  workspace.write("r.yaml", kTimedImages);
  const json report = timed(workspace, {"--config", "r.yaml", "--iterations", "3"});
  CHECK(report["purpose"] == "train");
  CHECK(report["iterations"] == 3);
  const json& timing = report["timings"].at(0);
  CHECK(timing["batch"] == 12);
  check_times(timing, "sample");
  for (const char* place : {"model.layers[0].conv2d", "model.layers[4].linear", "loss", "optimizer"})
    CHECK(has_layer(timing, place));
  for (const char* phase : {"forward", "backward", "update"}) CHECK(seconds_in(timing, phase) > 0);
  CHECK(std::distance(fs::directory_iterator(workspace.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("time: each batch size is timed, of training and of prediction") {
  const Workspace workspace;
  workspace.write("r.yaml", kTimedImages);
  for (const char* purpose : {"train", "predict"}) {
    const json report =
        timed(workspace, {"--config", "r.yaml", "--purpose", purpose, "--batch", "1,6", "--iterations", "2"});
    REQUIRE(report["timings"].size() == 2);
    CHECK(report["timings"][0]["batch"] == 1);
    CHECK(report["timings"][1]["batch"] == 6);
    for (const json& timing : report["timings"]) {
      check_times(timing, "sample");
      CHECK((seconds_in(timing, "backward") > 0) == (purpose == std::string("train")));
    }
  }
}

TEST_CASE("time: a generation has times of tokens and of the prompt") {
  const Workspace workspace;
  workspace.write("r.yaml", kTimedTokens);
  // More tokens than positions are left.
  const json report = timed(
      workspace, {"--config", "r.yaml", "--purpose", "generate", "--batch", "1,3", "--iterations", "20"});
  for (const json& timing : report["timings"]) {
    check_times(timing, "token");
    CHECK(timing["prompt_tokens_per_second"].get<double>() > 0);
    CHECK(has_layer(timing, "model.layers[2].attention"));
  }
  CHECK(report["timings"][1]["sequences"] == 3);
  for (const char* purpose : {"train", "predict"})
    check_times(timed(workspace, {"--config", "r.yaml", "--purpose", purpose})["timings"].at(0), "sample");
}

TEST_CASE("time: text has the same numbers in columns") {
  const Workspace workspace;
  workspace.write("r.yaml", kTimedImages);
  const Outcome outcome = run_trainer({"time", "r.yaml", "--iterations", "2"}, workspace.path());
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.output,
             ContainsSubstring("train on cpu, ") && ContainsSubstring("2 iterations after 5 to warm up\n") &&
                 ContainsSubstring("p50           p95           p99    samples/s") &&
                 ContainsSubstring("\noperations one by one, batch 12\n") && ContainsSubstring("100.0 %\n"));
}

TEST_CASE("time: what cannot be timed is refused before anything runs") {
  const Workspace workspace;
  workspace.write("r.yaml", kTimedImages);
  const auto code = [&](Strings words) {
    words.insert(words.begin(), {"time", "--config", "r.yaml"});
    const Outcome outcome = run_trainer(words, workspace.path());
    CHECK(outcome.output.empty());
    return outcome.code;
  };
  for (const char* batch : {"0", "1,", "a", "1,0", "1 2", ""}) CHECK(code({"--batch", batch}) == 64);
  CHECK(code({"--iterations", "0"}) == 64);
  CHECK(code({"--purpose", "serve"}) == 64);
  CHECK(code({"--purpose", "generate"}) == 78);
  CHECK(code({"--batch", "1000000", "device.memory=100MiB"}) == 71);
  // Its advice, too, needs no data: a batch may be larger than the samples that are there.
  fill_with_images(workspace, "gone", 5);
  CHECK(code({"--batch", "61", "device.memory=1MiB"}) == 71);
}

TEST_CASE("time: what was measured is printed before a batch that does not fit") {
  const Workspace workspace;
  workspace.write("r.yaml", kTimedImages);
  const Outcome outcome = run_trainer({"time", "--config", "r.yaml", "--iterations", "1", "--batch",
                                       "1,1000000", "--json", "device.memory=200MiB"},
                                      workspace.path());
  CHECK(outcome.code == 71);
  CHECK(nlohmann::json::parse(outcome.output).at("timings").size() == 1);
  const Outcome divided = run_trainer(
      {"time", "--config", "r.yaml", "--batch", "12", "training.micro_batch_size=5"}, workspace.path());
  CHECK_THAT(divided.errors, ContainsSubstring("training.micro_batch_size: must divide"));
}

}  // namespace trainer
