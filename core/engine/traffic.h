// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string_view>

#include "core/base/mesh.h"
#include "core/engine/plan.h"
#include "core/graph/names.h"

namespace trainer {

/// The number of times that a training step runs an entry; `has_last`: whether kAccumulateLast is one.
int64_t runs_of(std::string_view entry, int64_t micro_batches, bool has_last);
inline int64_t runs_of(const Plan& plan, std::string_view entry, int64_t micro_batches) {
  return runs_of(entry, micro_batches, plan.has_entry(entry_name::kAccumulateLast));
}

/// Ranks of one step may run different entries: accumulate_only or accumulate_last. Throws std::logic_error
/// unless both exchange the same tensors, in the same layouts and order.
void require_same_transfers(const Plan& plan);

/// Bytes of the tensors that a rank exchanges along each axis in a training step: of sums and broadcasts each
/// tensor, of gathers and scatters the wholes, of messages those that are sent. What travels depends on the
/// library: a sum along a ring of N ranks sends 2 (N - 1) / N times as much, a gather or a scatter half of
/// it.
std::map<Axis, int64_t> traffic_of_step(const Plan& plan, int64_t micro_batches);

}  // namespace trainer
