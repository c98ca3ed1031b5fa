// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/step_work.h"

#include "core/engine/predicted_time.h"
#include "core/engine/traffic.h"
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

/// The entries that a step runs of those that there are, and how often.
template <class HasEntry>
std::vector<std::pair<const char*, double>> runs_of_step(const HasEntry& has, const Job& job) {
  if (job.use.purpose == Purpose::predict) return {{entry_name::kPredict, 1}};
  std::vector<std::pair<const char*, double>> runs;
  const bool has_last = has(entry_name::kAccumulateLast);
  for (const char* name : entry_name::kOfStep) {
    const int64_t times = runs_of(name, job.spec.loaded_batch().micro_batches(), has_last);
    if (times > 0 && has(name)) runs.emplace_back(name, static_cast<double>(times));
  }
  return runs;
}

}  // namespace

std::vector<std::pair<const PlannedEntry*, double>> entries_of_step(const Job& job) {
  std::vector<std::pair<const PlannedEntry*, double>> entries;
  const auto has = [&](const char* name) { return job.plan.has_entry(name); };
  for (const auto& [name, times] : runs_of_step(has, job)) entries.emplace_back(&job.plan.entry(name), times);
  return entries;
}

double step_flops(const Job& job) {
  double sum = 0;
  const auto has = [&](const char* name) { return job.program.find_entry(name) != nullptr; };
  for (const auto& [name, times] : runs_of_step(has, job)) sum += times * entry_flops(job.program, name);
  return sum;
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
