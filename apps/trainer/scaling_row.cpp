// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/scaling_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "apps/trainer/device_models.h"
#include "apps/trainer/devices.h"
#include "apps/trainer/machine_models.h"
#include "apps/trainer/shipped_files.h"
#include "core/base/printable.h"
#include "core/engine/slowest_rank.h"
#include "core/metrics/metrics.h"
#include "core/recipe/memory_fit.h"
#include "core/recipe/step_work.h"
#include "core/run/tuning_file.h"
#include "core/session/device.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// The proportions of nodes where only the speed of the whole step is known: bytes and FLOPs a second of an
/// accelerator. Of the two, only the ratio matters.
constexpr DeviceRates kProportions{.bytes = 1, .f32 = 20, .tf32 = 20, .f16 = 20, .bf16 = 20};

/// Fewer intervals say little about the slowest of many ranks.
constexpr size_t kLeastDraws = 10;

/// With as many micro-batches for each stage, a pipeline idles for a fifth of the time.
constexpr int64_t kMicroBatchesOfStage = 4;

bool is_described(const std::string& device) {
  return shipped_devices().contains(device) || device.ends_with(".json");
}

/// The times of a run's steps as shares of their mean. A line of metrics has the mean of an interval, so its
/// deviation is that of one step divided by the root of the interval's steps.
std::vector<double> step_draws(const fs::path& run) {
  std::vector<std::pair<double, double>> intervals;  ///< seconds a sample, steps
  int64_t last = -1;
  read_records(run / "metrics.jsonl", [&](const MetricsRecord& record) {
    if (record.split != "train" || !record.samples_per_s || !(*record.samples_per_s > 0)) return;
    if (last >= 0) intervals.emplace_back(1 / *record.samples_per_s, static_cast<double>(record.step - last));
    last = record.step;  // the first interval has the warm-up
  });
  if (intervals.size() < kLeastDraws) return {};
  double mean = 0;
  for (const auto& [seconds, steps] : intervals) mean += seconds / static_cast<double>(intervals.size());
  std::vector<double> draws;
  for (const auto& [seconds, steps] : intervals)
    draws.push_back(std::max(1 + (seconds / mean - 1) * std::sqrt(std::max(steps, 1.0)), 0.0));
  return draws;
}

/// Of a step on this rank; transfers are not measured.
int64_t unmeasured_operations(const Job& job, const MeasuredNodes& run) {
  int64_t count = 0;
  for (const auto& [entry, times] : entries_of_step(job)) {
    for (const PlannedNode& planned : entry->nodes) {
      const Operation* op = planned.node.op.get();
      const bool transfers = dynamic_cast<const CollectiveStart*>(op) != nullptr ||
                             dynamic_cast<const CollectiveDone*>(op) != nullptr;
      count += planned.runs && !transfers && !run.has(planned.node) ? 1 : 0;
    }
  }
  return count;
}

int64_t ranks_of_data(const Recipe& recipe) {
  const std::optional<AutoCount>& asked = recipe.parallelism.data;
  return asked ? asked->count.value_or(1) : 1;
}

/// The largest divisor of a rank's samples, or else of the whole batch, up to training.micro_batch_size.
std::optional<int64_t> micro_batch_for(const Recipe& recipe, int64_t global, const Division& division) {
  const std::optional<AutoCount>& given = recipe.training.micro_batch_size;
  if (given && !given->count && division.pipeline == 1) return std::nullopt;
  const bool is_even = global % division.data == 0;
  if (!is_even && (!given || !given->count)) return std::nullopt;
  const int64_t samples = global / division.data;
  int64_t wanted = given && given->count ? *given->count : samples;
  if (division.pipeline > 1) wanted = std::min(wanted, samples / (kMicroBatchesOfStage * division.pipeline));
  wanted = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(samples, 1));
  while ((is_even ? samples : global) % wanted != 0) --wanted;
  return wanted;
}

std::vector<int64_t> divisors(int64_t number, int64_t most) {
  std::vector<int64_t> found;
  for (int64_t i = 1; i <= std::min(number, most); ++i) {
    if (number % i == 0) found.push_back(i);
  }
  return found;
}

/// On one line, without the place of the override that the row has made, and without where templates are
/// used.
std::string reason_of(const Error& problem) {
  constexpr std::string_view kReasonAfter = "error: ", kReasonBefore = "; used at ";
  std::string text = problem.what();
  text = text.substr(0, std::min(text.find('\n'), text.find(kReasonBefore)));
  if (const size_t at = text.find(kReasonAfter); at != std::string::npos)
    text = text.substr(at + kReasonAfter.size());
  return one_line(text);
}

}  // namespace

std::string to_string(const Division& division) {
  std::vector<std::string> parts;
  const auto add = [&](const char* name, int64_t ranks) {
    if (ranks > 1) parts.push_back(fmt::format("{} {}", name, ranks));
  };
  add("data", division.data);
  add("tensor", division.tensor);
  add("pipeline", division.pipeline);
  std::string text = parts.empty() ? "one rank" : fmt::format("{}", fmt::join(parts, " x "));
  if (division.shards == "true") text += ", sharded";
  if (division.shards != "true" && division.shards != "false")
    text += fmt::format(", sharded by {}", division.shards);
  if (division.shards_optimizer) text += ", optimizer sharded";
  return text;
}

std::optional<double> ScalingRow::joules_per_sample() const {
  return watts ? std::optional(*watts / samples_per_second()) : std::nullopt;
}

Json to_json(const ScalingRow& row) {
  Json json{{"ranks", row.division.ranks()},           {"data", row.division.data},
            {"tensor", row.division.tensor},           {"pipeline", row.division.pipeline},
            {"shard_parameters", row.division.shards}, {"shard_optimizer", row.division.shards_optimizer}};
  if (!row.problem.empty()) {
    json["problem"] = row.problem;
    return json;
  }
  json["global_batch_size"] = row.global_batch;
  json["micro_batch_size"] = row.micro_batch;
  json["seconds"] = row.seconds();
  json["samples_per_second"] = row.samples_per_second();
  if (row.efficiency) json["efficiency"] = *row.efficiency;
  json["computing_seconds"] = row.step.slowest.computing;
  json["communication_seconds"] = row.step.slowest.transferring;
  json["exposed_seconds"] = row.step.slowest.waiting;
  json["slowest_rank_seconds"] = row.slowest;
  if (row.unmeasured > 0) json["unmeasured_operations"] = row.unmeasured;
  json["peak_bytes"] = row.step.memory;
  if (row.available) json["available_bytes"] = *row.available;
  json["fits"] = row.fits();
  if (const auto joules = row.joules_per_sample()) json["joules_per_sample"] = *joules;
  return json;
}

Scaling::Scaling(const Arguments& arguments)
    : arguments_(arguments),
      machine_(find_machine(arguments.machine)),
      recipe_(Recipe::load(arguments.config, arguments.overrides)) {
  if (!arguments.measured.empty()) {
    const fs::path run = arguments.measured.back();
    run_ = std::make_shared<const MeasuredNodes>(run / "trace.json");
    draws_ = step_draws(run);
    tuning_ = timed_always(load_tuning(run / kTuningFile));
  }
  if (is_described(machine_.device)) gpu_ = find_device(machine_.device, {});
  const bool has_rates = gpu_ && gpu_->rates;
  if (!run_ && !(arguments.speed > 0) && !has_rates) {
    throw Error(
        ExitCode::recipe,
        fmt::format("--machine {}: the rates of its device, {}, are not known; add --measured RUN with "
                    "the directory of a run with --profile, or --speed with the samples a second of "
                    "one device",
                    one_line(arguments.machine), one_line(machine_.device)));
  }
  timer_ = run_ ? timed_by_run(run_) : timed_by_rates(has_rates ? *gpu_->rates : kProportions);
  calibrate();
}

std::shared_ptr<const Recipe> Scaling::recipe_for(const Division& division) const {
  int64_t global = recipe_->training.global_batch_size;
  if (arguments_.weak) global = global / ranks_of_data(*recipe_) * division.data;
  std::vector<std::string> overrides = arguments_.overrides;
  if (gpu_) {
    overrides.insert(overrides.end(), {"device.type=cuda", "device.model=" + machine_.device});
  } else {
    overrides.insert(overrides.end(), {"device.type=cpu", "device.model=auto"});
    // Algorithms need not be timed where only the operations' work counts.
    if (!run_) overrides.emplace_back("runtime.winograd=off");
  }
  const auto set = [&](const char* key, const auto& value) {
    overrides.push_back(fmt::format("{}={}", key, value));
  };
  set("parallelism.data", division.data);
  set("parallelism.tensor", division.tensor);
  set("parallelism.pipeline", division.pipeline);
  set("parallelism.shard_parameters", division.shards);
  set("parallelism.shard_optimizer", division.shards_optimizer);
  if (division.pipeline != recipe_->parallelism.pipeline) set("parallelism.cuts", "[]");
  if (division.pipeline == 1) set("parallelism.schedule.name", "1f1b");
  set("training.global_batch_size", global);
  if (const auto samples = micro_batch_for(*recipe_, global, division))
    set("training.micro_batch_size", *samples);
  return Recipe::load(arguments_.config, overrides);
}

void Scaling::predict(ScalingRow& row) const {
  const int64_t ranks = row.division.ranks(), on_node = machine_.devices_of_node;
  if (ranks > on_node && !machine_.among) {
    row.problem = fmt::format("{} has {} devices, and no amongNodes", machine_.name, on_node);
    return;
  }
  const std::shared_ptr<const Recipe> recipe = recipe_for(row.division);
  const RunSpec spec(recipe, {.rank = 0, .ranks = ranks}, std::min(ranks, on_node));
  const Backend backend = open_device(spec, tuning_, {.type = gpu_ ? "cuda" : "cpu"}, Use::plan);
  Planner& planner = *backend.planner;
  set_precision(spec, planner);
  const JobRequest request{.disabled_passes = arguments_.disabled_passes, .observe = {}, .plan = true};
  const Job job = make_fitting_job(spec, planner, request);
  row.global_batch = job.spec.batch().global_batch;
  row.micro_batch = job.spec.batch().micro_batch;
  if (gpu_) row.available = available_bytes(spec, planner);
  if (machine_.node_bytes) row.available = *machine_.node_bytes / std::min(ranks, on_node);
  row.step = predict_step(job, planner, request, machine_, timer_);
  row.unmeasured = run_ ? unmeasured_operations(job, *run_) : 0;
  row.slowest = row.step.slowest.computing * slowest_share(ranks);
  if (machine_.node_watts) {
    const int64_t nodes = (ranks + on_node - 1) / on_node;
    row.watts = *machine_.node_watts * static_cast<double>(nodes);
  } else if (gpu_ && gpu_->power_watts) {
    row.watts = *gpu_->power_watts * static_cast<double>(ranks);
  }
}

/// The speed of one rank, which --speed may give.
void Scaling::calibrate() {
  ScalingRow row{.division = {}};
  try {
    predict(row);
  } catch (const Error&) {
    if (arguments_.speed > 0) throw;
    return;  // only several ranks can train it
  }
  alone_ = row.samples_per_second();
  if (!(arguments_.speed > 0)) return;
  timer_ = slowed(timer_, *alone_ / arguments_.speed);
  alone_ = arguments_.speed;
}

double Scaling::spread() const {
  if (draws_.empty()) return kStepSpread;
  double squares = 0;
  for (const double draw : draws_) squares += (draw - 1) * (draw - 1);
  return std::sqrt(squares / static_cast<double>(draws_.size()));
}

double Scaling::slowest_share(int64_t ranks) const {
  if (ranks == 1) return 0;
  if (draws_.empty()) return kStepSpread * expected_largest_normal(ranks);
  return std::max(expected_largest(draws_, ranks) - 1, 0.0);
}

ScalingRow Scaling::row_of(const Division& division) const {
  ScalingRow row{.division = division};
  try {
    predict(row);
  } catch (const Error& problem) {
    row.problem = reason_of(problem);
  }
  if (row.problem.empty() && alone_)
    row.efficiency = row.samples_per_second() / static_cast<double>(division.ranks()) / *alone_;
  return row;
}

ScalingRow Scaling::row(int64_t ranks) const {
  const ParallelismSection& own = recipe_->parallelism;
  const int64_t others = own.tensor * own.pipeline;
  Division division{.data = ranks / others, .tensor = own.tensor, .pipeline = own.pipeline};
  if (own.shard_parameters.flag)
    division.shards = own.shard_parameters.count ? std::to_string(*own.shard_parameters.count) : "true";
  division.shards_optimizer = own.shard_optimizer;
  if (ranks % others == 0 && ranks > 0) return row_of(division);
  ScalingRow row{.division = division};
  row.division = {.data = ranks};
  row.problem = fmt::format("{} ranks are no multiple of parallelism.tensor times parallelism.pipeline, {}",
                            ranks, others);
  return row;
}

std::vector<ScalingRow> Scaling::splits(int64_t ranks) const {
  std::vector<ScalingRow> rows;
  for (const int64_t tensor : divisors(ranks, machine_.devices_of_node)) {
    for (const int64_t pipeline : divisors(ranks / tensor, ranks)) {
      const int64_t data = ranks / tensor / pipeline;
      Division division{.data = data, .tensor = tensor, .pipeline = pipeline};
      rows.push_back(row_of(division));
      if (data == 1) continue;
      if (tensor == 1 && pipeline == 1) {
        division.shards_optimizer = true;
        rows.push_back(row_of(division));
        division.shards_optimizer = false;
      }
      division.shards = "true";
      rows.push_back(row_of(division));
      const int64_t on_node = machine_.devices_of_node / tensor;
      if (on_node > 1 && data > on_node && data % on_node == 0) {
        division.shards = std::to_string(on_node);
        rows.push_back(row_of(division));
      }
    }
  }
  std::ranges::stable_sort(rows, [](const ScalingRow& a, const ScalingRow& b) {
    const auto rank_of = [](const ScalingRow& row) { return !row.problem.empty() ? 2 : row.fits() ? 0 : 1; };
    if (rank_of(a) != rank_of(b)) return rank_of(a) < rank_of(b);
    return a.problem.empty() && a.seconds() < b.seconds();
  });
  return rows;
}

}  // namespace trainer
