// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/recipe/recipe.h"

namespace trainer {

class Executable;

/// Applies model.initial_weights and model.replace. Returns the messages to log: the tensors that were
/// loaded, re-initialised or frozen, and those that only the file has. Empty if the recipe has no such key.
/// Throws Error (exit 65) if the weights do not fit.
std::vector<std::string> load_initial_weights(const Recipe& recipe, Executable& executable);

}  // namespace trainer
