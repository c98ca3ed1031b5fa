// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/program.h"

namespace trainer {

/// A running statistic as an entry moves it: `lerp` is the node that makes its next value.
struct Statistic {
  TensorId state = kNone;
  Node lerp;
};

/// Those that the entry moves before its update, in order. Throws std::logic_error if one is moved by
/// anything but a Lerp.
std::vector<Statistic> statistics_of(const Program& program, const Entry& entry);

/// Removes the nodes that move them, and leaves what they are moved by.
void remove_moves(Entry& entry, const std::vector<Statistic>& statistics);

}  // namespace trainer
