// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/recipe/recipe.h"

namespace trainer {

class Executable;

/// Does what model.initial_weights and model.replace say, and returns what to log: which tensors were loaded,
/// which begin anew, which are frozen and what the file has besides. Empty if the recipe has no such key.
/// Throws Error (exit 65) if the weights do not fit.
std::vector<std::string> load_initial_weights(const Recipe& recipe, Executable& executable);

}  // namespace trainer
