// SPDX-License-Identifier: Apache-2.0
#include "core/engine/traffic.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/graph/names.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/all_reduce.h"

namespace trainer {

int64_t runs_of(std::string_view entry, int64_t micro_batches, bool has_last) {
  const int64_t one = micro_batches == 1 ? 1 : 0, several = 1 - one;
  if (entry == entry_name::kAccumulateOnly) return one;
  if (entry == entry_name::kAccumulateFirst || entry == entry_name::kAccumulateLast) return several;
  if (entry == entry_name::kAccumulateNext) return std::max<int64_t>(micro_batches - (has_last ? 2 : 1), 0);
  return entry == entry_name::kEvaluate || entry == entry_name::kEvaluateAverages ? 0 : 1;
}

namespace {

/// What an entry exchanges, in order: the operation, and the layout and shape of each tensor.
std::vector<std::string> transfers_of(const Plan& plan, const char* entry) {
  std::vector<std::string> found;
  for (const PlannedNode& planned : plan.entry(entry).nodes) {
    if (dynamic_cast<const CollectiveStart*>(planned.node.op.get()) == nullptr) continue;
    found.emplace_back(planned.node.op->name());
    for (const TensorId id : planned.node.inputs) {
      const auto index = static_cast<size_t>(id);
      found.push_back(to_string(plan.placements[index].layout));
      for (const int64_t size : plan.tensors[index].spec.shape) found.push_back(std::to_string(size));
    }
  }
  return found;
}

}  // namespace

void require_same_transfers(const Plan& plan) {
  if (!plan.has_entry(entry_name::kAccumulateOnly)) return;
  if (transfers_of(plan, entry_name::kAccumulateOnly) != transfers_of(plan, entry_name::kAccumulateLast))
    throw std::logic_error("accumulate_only and accumulate_last exchange other tensors");
}

std::map<Axis, int64_t> traffic_of_step(const Plan& plan, int64_t micro_batches) {
  std::map<Axis, int64_t> bytes;
  for (const PlannedEntry& entry : plan.entries) {
    const int64_t runs = runs_of(plan, entry.name, micro_batches);
    for (const PlannedNode& planned : entry.nodes) {
      const auto* op = dynamic_cast<const CollectiveStart*>(planned.node.op.get());
      if (op == nullptr || runs == 0) continue;
      const bool gathers = dynamic_cast<const AllGatherStart*>(op) != nullptr;
      for (const TensorId id : gathers ? planned.node.outputs : planned.node.inputs)
        bytes[op->axis] += runs * plan.placements[static_cast<size_t>(id)].bytes;
    }
  }
  return bytes;
}

}  // namespace trainer
