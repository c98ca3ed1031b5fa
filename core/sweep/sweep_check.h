// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"

namespace trainer {

/// Where a recipe is read: its file, or a text in place of that.
struct RecipeSource {
  std::string path;
  std::optional<std::string> text = {};

  /// Throws Error (exit 78).
  std::shared_ptr<const Recipe> load(const std::vector<std::string>& overrides) const;
};

/// Reports keys and values of the sweep's parameters, tries and repeats that the recipe refuses by
/// themselves, at the place where the sweep has them. Values that do not fit together are left to their
/// trials. `overrides`: of the command line.
void check_sweep_values(const Recipe& recipe, const RecipeSource& source,
                        const std::vector<std::string>& overrides, Diagnostics& diagnostics);

}  // namespace trainer
