// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/step_work.h"

#include "core/engine/predicted_time.h"
#include "core/graph/names.h"
#include "core/graph/operation.h"

namespace trainer {
namespace {

double entry_flops(const Program& program, const char* name) {
  const Entry* entry = program.find_entry(name);
  double sum = 0;
  if (entry == nullptr) return 0;
  for (const Node& node : entry->nodes) {
    const auto [inputs, outputs] = node_specs(program, node);
    sum += node.op->flops(inputs, outputs);
  }
  return sum;
}

}  // namespace

std::vector<std::pair<const PlannedEntry*, double>> entries_of_step(const Job& job) {
  std::vector<std::pair<const PlannedEntry*, double>> entries;
  const auto add = [&](const char* name, double times) {
    if (times > 0 && job.plan.has_entry(name)) entries.emplace_back(&job.plan.entry(name), times);
  };
  add(entry_name::kTrainStep, 1);
  add(entry_name::kAccumulateFirst, 1);
  add(entry_name::kAccumulateNext, static_cast<double>(job.spec.batch().micro_batches() - 1));
  add(entry_name::kUpdate, 1);
  if (job.use.purpose == Purpose::predict) add(entry_name::kPredict, 1);
  return entries;
}

double step_flops(const Job& job) {
  if (job.use.purpose == Purpose::predict) return entry_flops(job.program, entry_name::kPredict);
  const auto more = static_cast<double>(job.spec.batch().micro_batches() - 1);
  return entry_flops(job.program, entry_name::kTrainStep) +
         entry_flops(job.program, entry_name::kAccumulateFirst) +
         more * entry_flops(job.program, entry_name::kAccumulateNext) +
         entry_flops(job.program, entry_name::kUpdate);
}

double step_flops_of_all(const Job& job) {
  if (job.all_stages == nullptr) return step_flops(job) * static_cast<double>(job.spec.ranks());
  const auto pieces =
      static_cast<double>(job.spec.batch().micro_batches() * job.spec.mesh().ranks_of_stage());
  return pieces * entry_flops(*job.all_stages, entry_name::kTrainStep);
}

double arithmetic_seconds(const Job& job, const DeviceRates& rates) {
  double sum = 0;
  for (const auto& [entry, times] : entries_of_step(job)) {
    for (const PlannedNode& planned : entry->nodes)
      sum += times * arithmetic_seconds(job.plan, planned, rates);
  }
  return sum;
}

}  // namespace trainer
