// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trainer {

/// A key that an override may name.
struct RecipeKey {
  std::string path;  ///< "optimizer.lr"
  std::string help;
  std::vector<std::string> values;  ///< allowed values, if they are a list of words
  bool is_text = false;             ///< it may be any text, such as a path
};

/// Every key outside of lists, in the order of the recipe. Of a component's parameters those of all its
/// choices.
std::vector<RecipeKey> recipe_keys();

}  // namespace trainer
