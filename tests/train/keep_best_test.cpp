// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include "tests/catch.h"

#include "core/data/images/rows.h"
#include "core/data/images/synthetic.h"
#include "core/run/best_weights.h"
#include "core/run/checkpoints.h"
#include "core/run/weights.h"
#include "core/storage/checkpoint.h"
#include "core/train/loop.h"
#include "cpu/backend.h"
#include "tests/host/quiet_log.h"
#include "tests/reference/networks.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

constexpr int64_t kBatchRows = 8, kTrained = 64, kSteps = 20;
const Shape kTrainedShape = {1, 6, 6};
constexpr double kHighLoss = 1.36;

double exp_of_mean_loss(std::span<const double> sums, double samples) {
  return std::exp(sums[0] / samples);
}

double minus_mean(std::span<const double> sums, double samples) {
  return -sums[0] / samples;
}

/// None with a high loss, as at the start.
double root_below_start(std::span<const double> sums, double samples) {
  return std::sqrt(kHighLoss - sums[0] / samples);
}

double constant(std::span<const double>, double) {
  return 1;
}

double infinite(std::span<const double>, double) {
  return HUGE_VAL;
}

/// A number that is better when smaller and one that is better when larger: both of the loss, so that they
/// are best at the same step. Neither name shows the direction.
std::vector<Metric> test_metrics() {
  return with_averages(
      {loss_metric(),
       {.name = "perplexity", .direction = Direction::smaller, .sums = {"loss"}, .value = exp_of_mean_loss},
       {.name = "inverse_loss", .direction = Direction::larger, .sums = {"loss"}, .value = minus_mean},
       {.name = "root", .direction = Direction::larger, .sums = {"loss"}, .value = root_below_start},
       {.name = "constant", .direction = Direction::larger, .sums = {"loss"}, .value = constant},
       {.name = "infinite", .direction = Direction::larger, .sums = {"loss"}, .value = infinite}});
}

/// Learns for a while, and then forgets because of a rate that is far too large.
std::vector<float> rates() {
  std::vector<float> table(kSteps, 0.05f);
  std::fill(table.begin() + kSteps / 2, table.end(), 4.0f);
  return table;
}

Program forgetting_program() {
  Program made =
      forward_program(network_from("{input: [1, 6, 6], layers: [flatten, {linear: 4}]}"), kBatchRows);
  run_passes(made, {autodiff()});
  append_update(*optimizer_from("{name: sgd}"), made, made.entry(updating_entry(made)), rates());
  run_passes(made, {average_weights(0.5), dead_code()});
  return made;
}

/// Steps of a directory's checkpoints, the tensors and metadata of its best weights, and the values of a
/// metric at each evaluation.
struct Found {
  std::vector<int64_t> checkpoints;
  std::map<int64_t, double> values;
  LoopState state;
  StoredMetadata best_file = {};
  bool is_checkpoint = false;  ///< the best weights are those of the best step's checkpoint
};

Found train(const std::string& metric) {
  const test::ScratchDirectory scratch;
  test::QuietLog quiet;
  const auto backend = make_cpu_backend(1);
  const auto source = make_synthetic(3, Split::train, kTrained, kTrainedShape, 4),
             held_out = make_synthetic(3, Split::val, kTrained, kTrainedShape, 4);
  Diagnostics diagnostics;
  const TransformList none;
  const TransformChain chain(none, kTrainedShape, diagnostics);
  const Program made = forgetting_program();
  const BatchInputs inputs = batch_inputs(made);
  const TrainingBatches training{
      .seed = 1, .order = TrainingOrder(kTrained, kBatchRows, true), .micro_batch = kBatchRows};
  DataPipeline batches(BatchMaker(make_image_rows(*source, chain, inputs, &training), inputs, training),
                       {.workers = 0}),
      pass(BatchMaker(make_image_rows(*held_out, chain, inputs), inputs,
                      EvaluationBatches{kTrained, kBatchRows}),
           {.workers = 0});
  Executable executable(make_plan(made, *backend.planner), *backend.device, true);
  initialize(executable, 1);
  start_averages(executable);

  LoopSettings settings{.steps = kSteps,
                        .samples_per_epoch = kTrained,
                        .batch = {.global_batch = kBatchRows, .micro_batch = kBatchRows},
                        .validation_interval = 2,
                        .logging_interval = 5,
                        .validation_samples = kTrained,
                        .metrics = test_metrics(),
                        .best_metric = metric,
                        .averages = true};
  Checkpoints checkpoints(executable, scratch / "checkpoints",
                          {.every_steps = 2, .keep_latest = 2, .keep_best = metric}, settings, RunState{},
                          quiet.log, [] {});
  MetricsSinks metrics(scratch.path(), {}, validation_metrics(settings));
  UnreadableList unreadable(scratch / "bad.txt", quiet.log);
  SingleProcess group;
  TrainingLoop loop(
      executable, group, batches, &pass, settings,
      {.metrics = metrics, .progress = quiet.screen, .log = quiet.log, .unreadable = unreadable},
      &checkpoints);
  CHECK(loop.run(LoopState{}).what == LoopEnd::What::done);

  Found found{.checkpoints = {}, .values = {}, .state = loop.state()};
  for (const auto& path : list_checkpoints(scratch / "checkpoints"))
    found.checkpoints.push_back(checkpoint_step(path));
  if (std::filesystem::exists(scratch / kBestFile)) {
    const SafetensorsFile best(scratch / kBestFile);
    found.best_file = best.metadata();
    const bool averaged = metric.starts_with(kAveraged);
    for (const auto& path : list_checkpoints(scratch / "checkpoints")) {
      if (checkpoint_step(path) != found.state.kept.value().step) continue;
      const SafetensorsFile saved(path / (averaged ? kAveragesFile : kModelFile));
      found.is_checkpoint = std::ranges::all_of(saved.tensors(), [&](const StoredTensor& tensor) {
        const StoredTensor* same = best.find(tensor.name);
        return same != nullptr && best.read_floats(*same) == saved.read_floats(tensor);
      });
    }
  }
  read_records(scratch / "metrics.jsonl", [&](const MetricsRecord& record) {
    for (const auto& [name, value] : record.metrics) {
      if (name == metric && record.split == "validation") found.values[record.step] = std::get<double>(value);
    }
  });
  return found;
}

}  // namespace

TEST_CASE("the best checkpoint is the one of the metric's own direction, averages included") {
  const std::string metric = GENERATE("perplexity", "inverse_loss", "ema_perplexity", "ema_inverse_loss");
  INFO(metric);
  const Found found = train(metric);
  REQUIRE(found.values.size() == kSteps / 2);
  const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::minmax_element(found.values.begin(), found.values.end(), by_value);
  const auto& [best_step, best] = metric.ends_with("perplexity") ? *least : *most;
  CHECK(best_step > 2);
  REQUIRE(best_step < kSteps - 2);
  CHECK(found.checkpoints == std::vector<int64_t>{kSteps, kSteps - 2, best_step});
  CHECK(found.state.best.at(metric) == best);
  CHECK(found.best_file.at("best").starts_with(fmt::format(R"({{"metric":"{}",)", metric)));
  CHECK(found.best_file.at("best").ends_with(fmt::format(R"("step":{}}})", best_step)));
  CHECK(found.is_checkpoint);
}

TEST_CASE("of equal values the first stays the best") {
  const Found found = train("constant");
  CHECK(found.checkpoints == std::vector<int64_t>{kSteps, kSteps - 2, 2});
  CHECK(found.best_file.at("best") == R"({"metric":"constant","value":1.0,"step":2})");
  CHECK(found.is_checkpoint);
}

TEST_CASE("a value that is not finite is never the best") {
  const Found found = train("infinite");
  CHECK(found.best_file.empty());
  CHECK_FALSE(found.state.kept);
  CHECK(found.checkpoints == std::vector<int64_t>{kSteps, kSteps - 2});
}

TEST_CASE("a first value that is no number does not stay the best one") {
  const Found found = train("root");
  REQUIRE(std::isnan(found.values.at(2)));
  const auto by_value = [](const auto& a, const auto& b) {
    return !std::isnan(b.second) && (std::isnan(a.second) || a.second < b.second);
  };
  const auto best = std::max_element(found.values.begin(), found.values.end(), by_value);
  CHECK(best->first > 2);
  CHECK(found.state.best.at("root") == best->second);
  CHECK(std::ranges::find(found.checkpoints, best->first) != found.checkpoints.end());
}

}  // namespace trainer
