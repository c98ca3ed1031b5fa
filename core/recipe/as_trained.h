// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// A key that weights were trained with another value of.
struct TrainedValue {
  std::string key;             ///< of the recipe: "data.eval_transform"
  std::string trained, given;  ///< both values, as JSON
  std::string obstacle;        ///< why it cannot be taken from the weights; empty if it can
};

/// Reads the recipe again with these overrides after its own.
using RecipeReader = std::function<std::shared_ptr<const Recipe>(const std::vector<std::string>& overrides)>;

/// What weights were trained with, compared with a recipe.
struct AsTrained {
  std::vector<TrainedValue> differences;
  std::shared_ptr<const Recipe> recipe;  ///< with the values of the weights; null without differences
};

/// Compares what about_network stored in `about` with the recipe: input and transforms of evaluation, or the
/// tokenizer. Items that are missing are not compared, nor those of other programs.
AsTrained compare_with_weights(const Recipe& recipe, const StoredMetadata& about, const RecipeReader& read);

/// The tokenizer of the recipe's tokens as about_network stores it; "" without one. Throws as opening it
/// does.
std::string about_tokenizer(const Recipe& recipe);

}  // namespace trainer
