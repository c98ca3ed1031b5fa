// SPDX-License-Identifier: Apache-2.0
#include "core/engine/traffic.h"

#include "core/graph/names.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/all_reduce.h"

namespace trainer {

int64_t runs_of(std::string_view entry, int64_t micro_batches, bool has_last) {
  if (entry == entry_name::kAccumulateNext) return micro_batches - (has_last ? 2 : 1);
  return entry == entry_name::kEvaluate || entry == entry_name::kEvaluateAverages ? 0 : 1;
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
