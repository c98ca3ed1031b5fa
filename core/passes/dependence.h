// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/program.h"

namespace trainer {

/// Whether each tensor is a trained parameter, or is computed from one within the entry: only these get
/// gradients.
std::vector<bool> depends_on_trained(const Program& program, const Entry& entry);

}  // namespace trainer
