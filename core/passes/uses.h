// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/program.h"

namespace trainer {

/// How often each tensor is read within an entry, outputs counting as reads.
std::vector<int> count_uses(const Program& program, const Entry& entry);

/// Position in the entry of the only node that reads `id`, or -1 where there is none or more than one.
int only_reader(const Entry& entry, const std::vector<int>& uses, TensorId id);

}  // namespace trainer
