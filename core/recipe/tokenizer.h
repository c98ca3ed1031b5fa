// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "core/recipe/recipe.h"
#include "core/text/tokenizer.h"

namespace trainer {

/// Converts a recipe's texts into tokens and back.
struct RecipeTokenizer {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<int32_t> end_of_text;  ///< the token that ends a text
};

/// Throws Error (exit 78) if neither the recipe nor its format names one, and the errors of open_tokenizer.
RecipeTokenizer tokenizer_of(const Recipe& recipe);

}  // namespace trainer
