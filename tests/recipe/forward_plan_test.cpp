// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <map>
#include "tests/catch.h"

#include "core/graph/operation.h"
#include "core/recipe/job.h"
#include "core/recipe/memory_fit.h"
#include "cpu/backend.h"
#include "tests/passes/draft.h"
#include "tests/sanitized.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

const std::string kConfigs = std::string(TRAINER_SOURCE_DIR) + "/configs/";

std::vector<std::string> shipped_recipes() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kConfigs)) {
    if (file.path().extension() == ".yaml") names.push_back(file.path().string());
  }
  return names;
}

std::shared_ptr<const Recipe> load(const std::string& path, const std::string& precision) {
  return Recipe::load(
      path, {"data.format=synthetic", "data.val_fraction=0", "training.global_batch_size=8",
             "training.micro_batch_size=4", "training.precision=" + precision, "training.ema.decay=0.9"});
}

/// Nodes that compute: reorders and casts only move numbers into other layouts and types. Evaluation alone
/// counts each class in addition.
std::vector<std::string> computations(const PlannedEntry& entry) {
  std::vector<std::string> all;
  for (const PlannedNode& planned : entry.nodes) {
    const std::string name(planned.node.op->name());
    if (!planned.runs || name == "reorder" || name == "cast" || name == "confusion_cells") continue;
    all.push_back(name + " " + planned.choice.implementation + " " + planned.choice.algorithm);
  }
  return all;
}

/// What is computed by an entry, without what another one computes for it.
std::vector<std::string> without(std::vector<std::string> all, const std::vector<std::string>& elsewhere) {
  std::erase_if(
      all, [&](const std::string& each) { return std::ranges::find(elsewhere, each) != elsewhere.end(); });
  return all;
}

}  // namespace

TEST_CASE("available memory is that of the device, divided among the ranks that share it") {
  struct SomeDevices final : RefusingPlanner {
    int64_t memory_bytes() const override { return 1000; }
    int64_t ranks_on_device(int64_t ranks) const override { return (ranks + 2) / 3; }
  };
  struct OneDevice final : RefusingPlanner {
    int64_t memory_bytes() const override { return 1000; }
  };
  const auto recipe = Recipe::load(kConfigs + "fashion_mnist_mlp.yaml",
                                   {"data.format=synthetic", "training.global_batch_size=8"});
  const RunSpec alone(recipe), eighth(recipe, {.rank = 0, .ranks = 8}, 8);
  CHECK(available_bytes(alone, OneDevice()) == 1000);
  CHECK(available_bytes(alone, SomeDevices()) == 1000);
  CHECK(available_bytes(eighth, OneDevice()) == 125);
  CHECK(available_bytes(eighth, SomeDevices()) == 333);
  const auto given =
      Recipe::load(kConfigs + "fashion_mnist_mlp.yaml",
                   {"data.format=synthetic", "training.global_batch_size=8", "device.memory=64MiB"});
  CHECK(available_bytes(RunSpec(given, {.rank = 0, .ranks = 8}, 8), OneDevice()) == int64_t{64} << 20);
}

TEST_CASE("a prediction saves no checkpoint: its memory has twice the largest weight instead, for loading") {
  const auto cpu = make_cpu_backend(1);
  const auto recipe = load(kConfigs + "fashion_mnist_mlp.yaml", "fp32");
  const auto memory_of = [&](Purpose purpose) {
    const Job job = make_job(recipe, *cpu.planner, {.use = {.purpose = purpose}});
    return std::map<std::string, int64_t>(job.memory.kinds.begin(), job.memory.kinds.end());
  };
  constexpr int64_t kLargest = int64_t{1000} * 784 * sizeof(float);
  CHECK(memory_of(Purpose::train).count("loading") == 0);
  CHECK(memory_of(Purpose::train).at("checkpoint") > kLargest);
  CHECK(memory_of(Purpose::predict).count("checkpoint") == 0);
  const int64_t loading = memory_of(Purpose::predict).at("loading");  // a layout may pad
  CHECK(loading >= 2 * kLargest);
  CHECK(loading < 2 * kLargest + kLargest / 10);
}

TEST_CASE("evaluation alone computes as beside training, without what only training needs") {
  for (const char* precision : {"fp32", "amp_bf16"}) {
    const auto cpu = make_cpu_backend(2, nullptr, true);
    if (cpu.planner->set_precision(*precision_named(precision))) continue;
    std::vector<std::string> paths = shipped_recipes();
    std::ranges::sort(paths);
    for (size_t i = 0; i < paths.size(); i += few_or_all<size_t>(4, 1)) {
      const std::string& path = paths[i];
      INFO(path << " " << precision);
      const auto recipe = load(path, precision);
      const Job trains = make_job(recipe, *cpu.planner);
      const ProgramUse use{.purpose = Purpose::evaluate, .averages = true};
      const Job evaluates =
          make_job(recipe, *cpu.planner, {.disabled_passes = {"prepare_weights"}, .observe = {}, .use = use});
      const Job prepares = make_job(recipe, *cpu.planner, {.use = use});
      for (const char* entry : {entry_name::kEvaluate, entry_name::kEvaluateAverages}) {
        CHECK(computations(evaluates.plan.entry(entry)) == computations(trains.plan.entry(entry)));
        CHECK(computations(prepares.plan.entry(entry)) ==
              without(computations(trains.plan.entry(entry)),
                      computations(prepares.plan.entry(entry_name::kPrepare))));
      }
      CHECK(evaluates.plan.entries.size() == 2);
      CHECK(evaluates.plan.persistent_by_kind.count("optimizer") == 0);
      CHECK(evaluates.plan.persistent_by_kind.count("gradients") == 0);
      CHECK(evaluates.plan.persistent_by_kind.at("parameters") <=
            trains.plan.persistent_by_kind.at("parameters"));
      CHECK(evaluates.plan.scratch_bytes < trains.plan.scratch_bytes);
      for (const PlannedEntry& entry : evaluates.plan.entries)
        CHECK(entry.peak_by_kind.count("gradients") == 0);

      const Job predicts = make_job(recipe, *cpu.planner, {.use = {.purpose = Purpose::predict}});
      CHECK(predicts.plan.entries.size() == 2);
      CHECK(predicts.plan.find(input_name::kLabels) == kNone);
      CHECK(predicts.plan.persistent_bytes < prepares.plan.persistent_bytes);
    }
  }
}

TEST_CASE("groups of the optimizer are checked before a file of samples is read") {
  const test::ScratchDirectory scratch;
  test::put(scratch / "x-images-idx3-ubyte", "no images");
  test::put(scratch / "x-labels-idx1-ubyte", "no labels");
  const Backend cpu = make_cpu_backend(1);
  const auto refusal = [&](ExitCode code, const std::string& pattern) {
    const auto recipe =
        Recipe::load(kConfigs + "fashion_mnist_mlp.yaml",
                     {"data.train=" + (scratch / "x").string(), "data.val=null", "validation.metrics=[]",
                      "optimizer.groups=[{pattern: \"" + pattern + "\"}]"});
    return test::error_text(code, [&] { make_job(recipe, *cpu.planner); });
  };
  CHECK_THAT(refusal(ExitCode::recipe, "nothing.*"),
             Catch::Matchers::ContainsSubstring("optimizer.groups[0].pattern"));
  CHECK_THAT(refusal(ExitCode::data, "*"), Catch::Matchers::ContainsSubstring("x-images-idx3-ubyte"));
}

}  // namespace trainer
