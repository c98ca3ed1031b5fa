// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/storage/safetensors.h"
#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

/// Pruned in four updates, the last one after step 16 of 20.
const std::string kGradually =
    " compression.prune.sparsity=0.6 compression.prune.begin=4ba compression.prune.end=16ba "
    "compression.prune.every=3ba training.ema.decay=0.5";

class PrunedRuns {
 public:
  PrunedRuns() { workspace.write("small.yaml", kSmallRecipe); }

  Outcome run(const std::string& name, const std::string& more, const std::string& before = "") const {
    return run_shell(before + " \"$TRAINER\" --config small.yaml run.output_dir=runs/" + name + more,
                     workspace.path());
  }
  SafetensorsFile file(const std::string& name) const {
    return SafetensorsFile(workspace.path() / "runs" / name);
  }

  Workspace workspace;
};

int64_t zeros_in(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor* stored = file.find(name);
  REQUIRE(stored != nullptr);
  return std::ranges::count(file.read_floats(*stored), 0.0F);
}

}  // namespace

TEST_CASE("a pruned run ends with the zeros that it was asked for, in weights and averages") {
  const PrunedRuns runs;
  const Outcome outcome = runs.run("a", kGradually);
  INFO(outcome.errors);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.errors, ContainsSubstring("masks save neither time nor memory"));
  CHECK_THAT(outcome.errors, ContainsSubstring("step 16: 60.0 % of the weights to be pruned are zero"));
  for (const char* name : {"a/model.safetensors", "a/model_ema.safetensors"}) {
    const SafetensorsFile file = runs.file(name);
    CHECK(zeros_in(file, "conv1.weight") == 43);  // of 72
    CHECK(zeros_in(file, "fc1.weight") == 3840);  // of 32 x 200
    CHECK(zeros_in(file, "fc2.weight") == 96);    // of 5 x 32
    CHECK(zeros_in(file, "fc1.bias") == 0);
    for (const StoredTensor& tensor : file.tensors()) CHECK(tensor.name.find("mask") == std::string::npos);
  }
  const SafetensorsFile rest = runs.file("a/checkpoints/step-00000020/optimizer.safetensors");
  REQUIRE(rest.find("fc1.weight.mask") != nullptr);
  CHECK(rest.find("fc1.weight.mask")->dtype == "U8");
  std::vector<double> shares;
  for (const std::string& line : lines_of(runs.workspace.read("runs/a/metrics.jsonl"))) {
    const auto record = nlohmann::json::parse(line);
    if (record["split"] == "train") shares.push_back(record["pruned_share"]);
  }
  REQUIRE(shares.size() == 20);
  CHECK(std::ranges::is_sorted(shares));
  CHECK(shares[6] == 0);  // the line of step 7 is about the steps before its update
  CHECK(shares[7] == Approx(0.6 * (1 - 0.421875)).margin(0.002));
  CHECK(shares[19] == Approx(0.6).margin(0.001));
}

TEST_CASE("a pruned run that pauses between updates of its masks ends with the same bits") {
  const PrunedRuns runs;
  REQUIRE(runs.run("a", kGradually).code == 0);
  for (const char* step : {"3", "7", "9", "16"})
    REQUIRE(runs.run("b", kGradually + " run.stop_after=" + step + "ba").code == 0);
  REQUIRE(runs.run("b", kGradually).code == 0);
  for (const char* name :
       {"model.safetensors", "model_ema.safetensors", "checkpoints/step-00000020/optimizer.safetensors"}) {
    CHECK((runs.workspace.read(std::string("runs/a/") + name) ==
           runs.workspace.read(std::string("runs/b/") + name)));
  }
}

TEST_CASE("a trained network is pruned at once before the first step, and its zeros stay") {
  const PrunedRuns runs;
  REQUIRE(runs.run("dense", "").code == 0);
  const std::string from = " model.initial_weights=runs/dense/model.safetensors training.max_duration=3ba";
  REQUIRE(runs.run("half", from + " compression.prune.sparsity=0.5 compression.prune.scope=global").code ==
          0);
  const SafetensorsFile half = runs.file("half/model.safetensors");
  CHECK(zeros_in(half, "conv1.weight") + zeros_in(half, "fc1.weight") + zeros_in(half, "fc2.weight") == 3316);
  CHECK(zeros_in(half, "conv1.weight") < 36);  // the first layer's weights are larger
  // Pruned again, what is zero stays so.
  const Outcome again = runs.run("again",
                                 " model.initial_weights=runs/half/model.safetensors"
                                 " compression.prune.sparsity=0.5 compression.prune.scope=global"
                                 " training.max_duration=3ba");
  REQUIRE(again.code == 0);
  const SafetensorsFile more = runs.file("again/model.safetensors");
  for (const char* name : {"conv1.weight", "fc1.weight", "fc2.weight"}) {
    const std::vector<float> before = half.read_floats(*half.find(name)),
                             after = more.read_floats(*more.find(name));
    for (size_t i = 0; i < before.size(); ++i)
      if ((before[i] == 0) != (after[i] == 0)) FAIL("another weight of " << name << " is zero");
  }
  const Outcome measured = run_trainer({"eval", "runs/half"}, runs.workspace.path());
  CHECK(measured.code == 0);
}

TEST_CASE("evaluations before the end of pruning are no candidates for the best, in any command") {
  const PrunedRuns runs;
  const Outcome outcome = runs.run("a", kGradually + " validation.interval=5ba");
  REQUIRE(outcome.code == 0);
  std::vector<std::string> events;
  for (const std::string& line : lines_of(runs.workspace.read("runs/a/metrics.jsonl"))) {
    const auto record = nlohmann::json::parse(line);
    if (record["split"] == "validation") events.push_back(record.value("event", "decides"));
  }
  CHECK(events == std::vector<std::string>{"undecided", "undecided", "undecided", "decides"});
  const Outcome listed = run_trainer({"runs", "runs", "--json"}, runs.workspace.path());
  CHECK(nlohmann::json::parse(listed.output)[0]["best"]["step"] == 20);
}

TEST_CASE("a run may be pruned from a checkpoint on, but not go on without its masks") {
  const PrunedRuns runs;
  REQUIRE(runs.run("a", " run.stop_after=5ba").code == 0);
  const Outcome pruned =
      runs.run("a", " compression.prune.sparsity=0.5 'run.allow_changes=[compression]' run.stop_after=9ba");
  INFO(pruned.errors);
  REQUIRE(pruned.code == 0);
  const Outcome without = runs.run("a", " 'run.allow_changes=[compression]'");
  CHECK(without.code == 65);
  CHECK_THAT(without.errors,
             ContainsSubstring("which keeps pruned weights at zero; leave compression.prune"));
}

TEST_CASE("pruning that ends after the run, or before it begins, is refused at its key") {
  const PrunedRuns runs;
  const Outcome late = runs.run("a", " compression.prune.sparsity=0.5 compression.prune.end=3ep");
  CHECK(late.code == 78);
  CHECK_THAT(
      late.errors,
      ContainsSubstring("compression.prune.end: pruning ends after step 30, and the run after step 20"));
  const Outcome early =
      runs.run("a", " compression.prune.sparsity=0.5 compression.prune.begin=1ep compression.prune.end=9ba");
  CHECK(early.code == 78);
  CHECK_THAT(early.errors, ContainsSubstring("pruning ends after step 9, before it begins after step 10"));
  CHECK_FALSE(fs::exists(runs.workspace.path() / "runs"));
}

TEST_CASE("ranks prune the same weights as one process") {
  if (!has_mpi()) return;
  const PrunedRuns runs;
  const std::string pruned = kGradually + " parallelism.verify=1ba ";
  REQUIRE(runs.run("one", pruned).code == 0);
  const Outcome two = run_ranks(
      "\"$TRAINER\" --config small.yaml run.output_dir=runs/two parallelism.data=2 device.threads=1" +
          pruned + " parallelism.shard_optimizer=true",
      runs.workspace.path());
  INFO(two.errors);
  REQUIRE(two.code == 0);
  const SafetensorsFile one = runs.file("one/model.safetensors"), of_two = runs.file("two/model.safetensors");
  for (const char* name : {"conv1.weight", "fc1.weight", "fc2.weight"})
    CHECK(zeros_in(one, name) == zeros_in(of_two, name));
}

}  // namespace trainer
