// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/arena.h"
#include "core/engine/planning.h"
#include "core/graph/names.h"

namespace trainer {
namespace {

std::string kind_of(Role role) {
  switch (role) {
    case Role::parameter:
    case Role::derived:
      return "parameters";
    case Role::optimizer:
      return "optimizer";
    case Role::gradient_sum:
      return "gradients";
    case Role::cache:
      return "cache";
    default:
      return "state";
  }
}

/// Finds parameters that only the entry `prepare` reads, and the first node that does.
void find_transient(Plan& plan) {
  std::vector<bool> is_read(plan.tensors.size(), false);
  PlannedEntry* prepare = nullptr;
  for (PlannedEntry& entry : plan.entries) {
    if (entry.name == entry_name::kPrepare) {
      prepare = &entry;
      continue;
    }
    for (const PlannedNode& planned : entry.nodes) {
      for (const TensorId id : planned.node.inputs)
        if (id != kNone) is_read[static_cast<size_t>(id)] = true;
    }
    for (const NamedTensor& output : entry.outputs) is_read[static_cast<size_t>(output.tensor)] = true;
  }
  if (prepare == nullptr) return;
  for (PlannedNode& planned : prepare->nodes) {
    for (const TensorId id : planned.node.inputs) {
      if (id == kNone || is_read[static_cast<size_t>(id)]) continue;
      if (plan.tensors[static_cast<size_t>(id)].role != Role::parameter) continue;
      if (!std::exchange(plan.placements[static_cast<size_t>(id)].is_transient, true))
        planned.given.push_back(id);
    }
  }
}

/// Those that a save reads on other ranks than 0 are adjacent, or all others.
void give_offsets(Plan& plan, bool of_divided) {
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor& tensor = plan.tensors[i];
    Placement& at = plan.placements[i];
    const bool is_divided_state = is_divided(tensor) && outlives_step(tensor.role);
    if (at.region != Region::persistent || is_divided_state != of_divided) continue;
    at.offset = std::exchange(plan.persistent_bytes, plan.persistent_bytes + align_up(at.bytes));
    plan.persistent_by_kind[kind_of(tensor.role)] += align_up(at.bytes);
  }
}

}  // namespace

void place_persistent(const Planner& planner, Plan& plan, int64_t rank, int64_t stage) {
  find_transient(plan);
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor& tensor = plan.tensors[i];
    Placement& at = plan.placements[i];
    at.element_bytes = planner.element_bytes(tensor.spec.dtype);
    if (!is_from_outside(tensor.role) && !is_persistent(tensor.role)) continue;
    at.bytes = stored_elements(at.layout, tensor.spec.shape) * at.element_bytes;
    at.region = is_from_outside(tensor.role) ? Region::input
                : at.is_transient            ? Region::scratch
                                             : Region::persistent;
    if (at.region != Region::persistent) continue;
    const bool is_in_stage =
        tensor.stages.empty() || std::ranges::find(tensor.stages, stage) != tensor.stages.end();
    const bool is_here = is_in_stage && tensor.rank.value_or(rank) == rank;
    if (!is_here) at.region = Region::elsewhere;
  }
  give_offsets(plan, true);
  plan.divided_bytes = plan.persistent_bytes;
  give_offsets(plan, false);
}

}  // namespace trainer
