// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/recipe/recipe.h"
#include "core/run/weights.h"

namespace trainer {

/// The names that model.initial_weights does not set: those of model.replace, and with model.num_classes a
/// head that the file does not fit.
Replaced replaced_by(const Recipe& recipe);

/// Applies model.initial_weights and model.replace. Returns the messages to log: the tensors that were
/// loaded, re-initialised or frozen, and those that only the file has. Empty if the recipe has no such key.
/// Throws Error (exit 65) if the weights do not fit. `others` hold parts of divided tensors.
std::vector<std::string> load_initial_weights(const Recipe& recipe, Executable& executable,
                                              OtherImages* others = nullptr);

}  // namespace trainer
