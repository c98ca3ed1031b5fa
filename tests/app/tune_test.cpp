// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Strings = std::vector<std::string>;

constexpr const char* kTuned = R"(version: 1
run: {name: tuned, seed: 3}
model:
  input: [1, 8, 8]
  layers: [flatten, {linear: 16}, tanh, {linear: 4}]
data: {format: synthetic, synthetic: {train_samples: 96, val_samples: 16}}
training: {max_duration: 20ba, global_batch_size: 24}
optimizer: {name: sgd, lr: 0.05}
validation: {interval: 5ba}
guards: {nonfinite: rollback, spike: skip}
)";

nlohmann::json tuned(const Workspace& workspace, Strings words) {
  words.insert(words.begin(), "tune");
  words.insert(words.end(), {"--config", "tuned.yaml", "--json"});
  const Outcome outcome = run_trainer(words, workspace.path());
  INFO(outcome.errors);
  REQUIRE(outcome.code == 0);
  return nlohmann::json::parse(outcome.output);
}

}  // namespace

TEST_CASE("tune lr suggests a rate, the same each time, and writes no run") {
  const Workspace workspace;
  workspace.write("tuned.yaml", kTuned);
  const auto first = tuned(workspace, {"lr", "--steps", "120", "--to", "1000"});
  CHECK(tuned(workspace, {"lr", "--steps", "120", "--to", "1000"}) == first);
  const double rate = first["suggestion"];
  CHECK(rate > 1e-4);
  CHECK(rate < 100);
  CHECK(first["losses"].size() <= 120);
  CHECK(first["losses"].size() == first["rates"].size());
  CHECK(first["losses"][0].get<double>() == Approx(std::log(4)).margin(0.5));
  CHECK_THAT(first["override"].get<std::string>(), ContainsSubstring("optimizer.lr="));
  CHECK_FALSE(std::filesystem::exists(workspace.path() / "runs"));
  // The mean of three curves is another one; each has its own seed.
  CHECK(tuned(workspace, {"lr", "--steps", "120", "--to", "1000", "--repeats", "3"})["losses"] !=
        first["losses"]);
  // Rates are those of the key: for a quarter of the batch that the recipe has.
  const auto scaled = tuned(
      workspace, {"lr", "--steps", "120", "--from", "2.5e-7", "--to", "250", "optimizer.lr_for_batch=6"});
  CHECK(scaled["losses"] == first["losses"]);
  CHECK(scaled["suggestion"].get<double>() == Approx(rate / 4));
}

TEST_CASE("tune lr draws the curve, and refuses a flat one") {
  const Workspace workspace;
  workspace.write("tuned.yaml", kTuned);
  const Outcome drawn =
      run_trainer({"tune", "lr", "tuned.yaml", "--steps", "120", "--to", "1000"}, workspace.path());
  CHECK(drawn.code == 0);
  for (const char* part : {"smoothed loss", "steepest place", "longest valley", "suggestion: optimizer.lr="})
    CHECK_THAT(drawn.output, ContainsSubstring(part));
  const Outcome flat =
      run_trainer({"tune", "lr", "tuned.yaml", "--from", "1e-12", "--to", "1e-10"}, workspace.path());
  CHECK(flat.code == 70);
  CHECK(flat.output.empty());
  CHECK_THAT(flat.errors, ContainsSubstring("the loss does not fall at any rate from 1e-12 to 1e-10"));
  const Outcome falling =
      run_trainer({"tune", "lr", "tuned.yaml", "--from", "1", "--to", "0.1"}, workspace.path());
  CHECK(falling.code == 64);
  CHECK_THAT(falling.errors, ContainsSubstring("--from: must be below --to"));
}

TEST_CASE("tune batch times each micro-batch, and leaves out those that do not fit") {
  const Workspace workspace;
  workspace.write("tuned.yaml", kTuned);
  const auto all = tuned(workspace, {"batch", "--seconds", "0.01"});
  Strings sizes;
  for (const auto& timing : all["timings"]) {
    sizes.push_back(std::to_string(timing["micro_batch"].get<int>()));
    CHECK(timing["samples"] == 24);
    CHECK(timing["seconds"] > 0);
    CHECK(timing["steps"] >= 9);  // three rounds
    CHECK(timing["peak_bytes"] > 1 << 20);
    CHECK(timing["planned_bytes"] > 1 << 20);
  }
  CHECK(sizes == Strings{"1", "2", "3", "4", "6", "8", "12", "24"});
  CHECK(all["too_large"].empty());
  CHECK(all["override"] == "training.micro_batch_size=" + std::to_string(all["suggestion"].get<int>()));
  CHECK_FALSE(std::filesystem::exists(workspace.path() / "runs"));
  const Outcome none = run_trainer({"tune", "batch", "tuned.yaml", "device.memory=1MiB"}, workspace.path());
  CHECK(none.code == 71);
  CHECK_THAT(none.errors, ContainsSubstring("no micro-batch fits into memory"));
  const Outcome wrong = run_trainer({"tune", "batch", "tuned.yaml", "--only", "7"}, workspace.path());
  CHECK(wrong.code == 78);
  CHECK_THAT(wrong.errors, ContainsSubstring("must divide global_batch_size 24, got 7"));
}

}  // namespace trainer
