// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/program.h"

namespace trainer {

/// A running statistic as an entry updates it: `lerp` is the node that makes its next value.
struct Statistic {
  TensorId state = kNone;
  Node lerp;
};

/// Those that the entry updates before its weights, in order. Throws std::logic_error if one is updated by
/// anything but a Lerp.
std::vector<Statistic> statistics_of(const Program& program, const Entry& entry);

/// Removes the nodes that update them, and keeps the inputs of these.
void remove_moves(Entry& entry, const std::vector<Statistic>& statistics);

}  // namespace trainer
