// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "core/recipe/recipe.h"
#include "core/text/tokenizer.h"

namespace trainer {

/// What turns a recipe's texts into tokens and back.
struct RecipeTokenizer {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<int32_t> end_of_text;  ///< the token that ends a text
};

/// Throws Error (exit 78) if the recipe names none and its format has none, and what open_tokenizer
/// throws.
RecipeTokenizer tokenizer_of(const Recipe& recipe);

}  // namespace trainer
