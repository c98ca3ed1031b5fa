// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/recipe/recipe.h"

namespace trainer {

/// Throws Error (exit 78) if the recipe's run was begun when data.val_fraction took no account of classes:
/// the run would start again elsewhere, or with other samples for validation.
void require_no_earlier_split(const Recipe& recipe);

/// The same for weights that are evaluated: these samples may have trained them. `weights` is a file of a run
/// or of one of its checkpoints.
void require_split_of(const Recipe& recipe, const std::filesystem::path& weights);

}  // namespace trainer
