// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/host/log.h"
#include "core/recipe/recipe.h"

namespace trainer {

class Executable;

/// Does what model.initial_weights and model.replace say. Throws Error (exit 65) where the weights do not
/// fit.
void load_initial_weights(const Recipe& recipe, Executable& executable, Log& log);

}  // namespace trainer
