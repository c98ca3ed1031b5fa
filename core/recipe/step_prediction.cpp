// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/step_prediction.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/engine/predicted_time.h"
#include "core/engine/transfer_time.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/exchange.h"

namespace trainer {
namespace {

Transfer transfer_of(const CollectiveStart& op) {
  if (dynamic_cast<const AllGatherStart*>(&op) != nullptr) return Transfer::gather;
  if (dynamic_cast<const ReduceScatterStart*>(&op) != nullptr) return Transfer::scatter;
  if (dynamic_cast<const BroadcastStart*>(&op) != nullptr) return Transfer::broadcast;
  if (dynamic_cast<const ExchangeStart*>(&op) != nullptr) return Transfer::message;
  return Transfer::sum;
}

}  // namespace

NodeTimer timed_by_rates(const DeviceRates& rates) {
  return [rates](const Plan& plan, const PlannedEntry& entry) {
    std::vector<double> seconds;
    for (const PlannedNode& planned : entry.nodes) seconds.push_back(cost_of(plan, planned, rates).seconds());
    return seconds;
  };
}

NodeTimer timed_by_run(std::shared_ptr<const MeasuredNodes> run) {
  return [run = std::move(run)](const Plan& plan, const PlannedEntry& entry) {
    using Name = std::pair<std::string, Phase>;
    const auto name_of = [](const PlannedNode& planned) {
      return Name(label_of(planned.node), planned.node.phase);
    };
    std::map<Name, size_t> counts, places;
    for (const PlannedNode& planned : entry.nodes) counts[name_of(planned)] += planned.runs ? 1 : 0;
    std::vector<double> seconds;
    for (const PlannedNode& planned : entry.nodes) {
      const Name name = name_of(planned);
      seconds.push_back(planned.runs
                            ? run->seconds(planned.node, work_of(plan, planned), places[name]++, counts[name])
                            : 0);
    }
    return seconds;
  };
}

NodeTimer slowed(NodeTimer timer, double factor) {
  return [timer = std::move(timer), factor](const Plan& plan, const PlannedEntry& entry) {
    std::vector<double> seconds = timer(plan, entry);
    for (double& each : seconds) each *= factor;
    return seconds;
  };
}

StepPrediction predict_step(const Job& job, const Planner& planner, const JobRequest& request,
                            const MachineDescription& machine, const NodeTimer& timer) {
  const int64_t stages = job.spec.mesh().stages;
  std::vector<Job> others;
  others.reserve(static_cast<size_t>(stages));
  std::vector<const Job*> jobs;
  for (int64_t stage = 0; stage < stages; ++stage) {
    if (stage == job.spec.mesh().coordinate(Axis::pipeline, job.spec.rank())) {
      jobs.push_back(&job);
      continue;
    }
    JobRequest of_stage = request;
    of_stage.all_stages = job.all_stages;
    jobs.push_back(&others.emplace_back(make_job(job.spec.in_stage(stage), planner, of_stage)));
  }
  StepPrediction found;
  std::vector<StageStep> steps;
  std::map<const PlannedEntry*, std::vector<double>> seconds;
  for (const Job* each : jobs) {
    steps.push_back(stage_step(each->plan, each->spec.loaded_batch().micro_batches()));
    for (const PlannedEntry* entry : steps.back().entries) {
      if (!seconds.contains(entry)) seconds[entry] = timer(each->plan, *entry);
    }
    found.memory = std::max(found.memory, each->memory.total());
  }
  const Mesh& mesh = job.spec.mesh();
  const std::vector<StageTime> times = step_timeline(
      steps, [&](size_t, const PlannedEntry& entry, size_t node) { return seconds.at(&entry)[node]; },
      [&](const CollectiveStart& op, double bytes) -> TransferTime {
        const RankGroup group = group_along(mesh, op.axis);
        const Transfer what = transfer_of(op);
        return {.link = transfer_seconds(machine, what, group, bytes),
                .processor = processor_seconds(machine, what, group, bytes)};
      });
  found.slowest = *std::ranges::max_element(times, {}, &StageTime::seconds);
  return found;
}

}  // namespace trainer
