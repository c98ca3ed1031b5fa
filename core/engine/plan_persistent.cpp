// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include "core/engine/arena.h"
#include "core/engine/planning.h"

namespace trainer {
namespace {

std::string kind_of(Role role) {
  switch (role) {
    case Role::parameter:
    case Role::low_precision_copy:
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

}  // namespace

void place_persistent(const Planner& planner, Plan& plan, int64_t rank) {
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor& tensor = plan.tensors[i];
    Placement& at = plan.placements[i];
    at.element_bytes = planner.element_bytes(tensor.spec.dtype);
    if (!is_from_outside(tensor.role) && !is_persistent(tensor.role)) continue;
    at.bytes = stored_elements(at.layout, tensor.spec.shape) * at.element_bytes;
    at.region = is_from_outside(tensor.role) ? Region::input : Region::persistent;
    if (at.region == Region::input) continue;
    const bool is_here = tensor.rank.value_or(rank) == rank;
    if (!is_here) at.region = Region::elsewhere;
    int64_t& end = is_here ? plan.persistent_bytes : plan.elsewhere_bytes;
    at.offset = std::exchange(end, end + align_up(at.bytes));
    if (!is_here) continue;
    plan.persistent_by_kind[kind_of(tensor.role)] += align_up(at.bytes);
  }
}

}  // namespace trainer
