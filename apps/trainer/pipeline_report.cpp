// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/pipeline_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/base/units.h"
#include "core/engine/predicted_time.h"
#include "core/graph/names.h"
#include "core/graph/ops/exchange.h"
#include "core/step/pipeline_schedule.h"

namespace trainer {
namespace {

/// "wte to h.2.res, h.5.ln to lm_head"
std::string layers_of(const Job& job) {
  const Network& network = job.spec.recipe().model;
  const std::vector<int64_t>& stages = job.program.whole->stages_of_layers;
  std::vector<std::string> ranges;
  for (size_t begin = 0, end = 0; begin < stages.size(); begin = end) {
    while (end < stages.size() && stages[end] == stages[begin]) ++end;
    if (job.spec.schedule().rank_of(stages[begin]) != job.program.stage) continue;
    const std::string first = network.layer_name(begin), last = network.layer_name(end - 1);
    ranges.push_back(first == last ? first : fmt::format("{} to {}", first, last));
  }
  return fmt::format("{}", fmt::join(ranges, ", "));
}

double cost_of(const Job& job, const PlannedNode& planned, const std::optional<DeviceRates>& rates) {
  if (rates) return trainer::cost_of(job.plan, planned, *rates).seconds();
  const std::vector<TensorSpec> inputs = specs_of(job.plan.tensors, planned.node.inputs),
                                outputs = specs_of(job.plan.tensors, planned.node.outputs);
  return planned.node.op->flops(inputs, outputs);
}

StageRow row_of(const Job& job, const std::optional<DeviceRates>& rates) {
  const PlannedEntry& step = job.plan.entry(entry_name::kTrainStep);
  StageRow row{.layers = layers_of(job), .memory = job.memory.total()};
  for (size_t i = 0; i < job.plan.tensors.size(); ++i) {
    const Tensor& tensor = job.plan.tensors[i];
    if (tensor.role == Role::parameter && job.plan.placements[i].region == Region::persistent)
      row.parameters += numel(whole_shape(tensor));
  }
  for (const PlannedNode& planned : step.nodes) {
    if (const auto* op = dynamic_cast<const ExchangeStart*>(planned.node.op.get())) {
      row.messages += static_cast<int64_t>(op->to.size());
      for (const TensorId id : planned.node.inputs)
        row.sent_bytes += job.plan.placements[static_cast<size_t>(id)].bytes;
    }
    if (!planned.runs || planned.node.phase == Phase::update) continue;
    (planned.node.phase == Phase::forward ? row.forward : row.backward) += cost_of(job, planned, rates);
  }
  return row;
}

std::string time_text(const PipelineRows& all, double cost) {
  return all.is_predicted ? fmt::format("{:.2f} ms", 1e3 * cost) : human_flops(cost);
}

}  // namespace

/// The routes of all stages, and with them who waits for whom, are those of any program of the pipeline.
PipelineRows pipeline_rows(const Planner& planner, const Job& job,
                           const std::vector<std::string>& disabled_passes) {
  if (job.spec.mesh().stages == 1) return {};
  const std::optional<DeviceRates> rates = planner.rates();
  PipelineRows found{.rows = {}, .idle = 0, .is_predicted = rates.has_value()};
  const PipelineSchedule schedule = job.spec.schedule();
  for (int64_t stage = 0; stage < schedule.ranks; ++stage) {
    if (stage == job.program.stage) {
      found.rows.push_back(row_of(job, rates));
      continue;
    }
    const Job other = make_job(job.spec.in_stage(stage), planner,
                               {.disabled_passes = disabled_passes,
                                .has_data = job.train.has_value(),
                                .use = job.use,
                                .balanced_weights = job.balanced_weights,
                                .all_stages = job.all_stages});
    found.rows.push_back(row_of(other, rates));
  }
  std::vector<std::vector<Unit>> units;
  for (int64_t rank = 0; rank < schedule.ranks; ++rank) units.push_back(units_of(schedule, rank));
  const auto pieces = static_cast<double>(schedule.micro_batches * schedule.chunks);
  const Timeline times = timeline(schedule, units, job.program.entries.front().routes, [&](const Unit& unit) {
    const StageRow& row = found.rows[static_cast<size_t>(schedule.rank_of(unit.stage))];
    return std::max((unit.is_backward ? row.backward : row.forward) / pieces, 1e-12);
  });
  found.idle = times.idle_share();
  for (int64_t rank = 0; rank < schedule.ranks; ++rank)
    found.rows[static_cast<size_t>(rank)].in_flight = times.most_in_flight(rank);
  return found;
}

std::string pipeline_text(const Job& job, const PipelineRows& all) {
  if (all.rows.empty()) return "";
  const PipelineSchedule schedule = job.spec.schedule();
  std::string text = fmt::format(
      "\npipeline of {} stages{}, {}, {} micro-batches: ranks wait for each other {:.1f} % of the time\n",
      schedule.stages(), schedule.chunks > 1 ? fmt::format(" on {} ranks", schedule.ranks) : "",
      job.spec.recipe().parallelism.schedule, schedule.micro_batches, 100 * all.idle);
  text += fmt::format("  {:<4} {:>12} {:>11} {:>9} {:>14} {:>14} {:>11}  {}\n", "rank", "parameters",
                      "memory", "in flight", "forward", "backward", "sends", "layers");
  for (size_t i = 0; i < all.rows.size(); ++i) {
    const StageRow& row = all.rows[i];
    text += fmt::format("  {:<4} {:>12} {:>11} {:>9} {:>14} {:>14} {:>11}  {}\n",
                        static_cast<int64_t>(i) * job.spec.mesh().ranks_of_stage(), row.parameters,
                        human_bytes(row.memory), row.in_flight, time_text(all, row.forward),
                        time_text(all, row.backward), human_bytes(row.sent_bytes), row.layers);
  }
  return text;
}

void add_pipeline(const Job& job, const PipelineRows& all, Json& report) {
  if (all.rows.empty()) return;
  report["pipeline"]["idle_share"] = all.idle;
  report["pipeline"]["micro_batches"] = job.spec.schedule().micro_batches;
  for (const StageRow& row : all.rows) {
    report["pipeline"]["stages"].push_back(
        {{"layers", row.layers},
         {"parameters", row.parameters},
         {"peak_bytes", row.memory},
         {"micro_batches_in_flight", row.in_flight},
         {all.is_predicted ? "forward_seconds" : "forward_flops", row.forward},
         {all.is_predicted ? "backward_seconds" : "backward_flops", row.backward},
         {"messages", row.messages},
         {"sent_bytes", row.sent_bytes}});
  }
}

}  // namespace trainer
