// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/program.h"

namespace trainer {

/// How often each tensor is read within an entry, outputs counting as reads.
std::vector<int> count_uses(const Program& program, const Entry& entry);

/// Makes every node after `from`, and the outputs, read `to` instead of `what`.
void replace_uses(Entry& entry, size_t from, TensorId what, TensorId to);

}  // namespace trainer
