// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/tokenizer.h"

#include "core/data/tokens/formats.h"
#include "core/data/tokens/texts.h"

namespace trainer {

RecipeTokenizer tokenizer_of(const Recipe& recipe) {
  const Tokenizer* tokenizer = tokenizer_of(recipe.data);
  if (tokenizer == nullptr) {
    fail_at(recipe.origin_of("data"),
            "shards do not name the tokenizer of their tokens; name it in data.tokenizer");
  }
  return {.tokenizer = {recipe.data.tokens.texts, tokenizer}, .end_of_text = end_of_text_of(recipe.data)};
}

}  // namespace trainer
