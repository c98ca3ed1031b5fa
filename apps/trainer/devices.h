// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/engine/backend.h"
#include "core/recipe/recipe.h"

namespace trainer {

/// The backend that the recipe asks for. Throws Error (exit 69) with the reason where it is not available.
std::unique_ptr<Backend> open_device(const Recipe& recipe);

}  // namespace trainer
