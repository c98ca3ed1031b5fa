// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/tokenizer.h"

#include "core/data/tokens/formats.h"
#include "core/data/tokens/texts.h"

namespace trainer {

RecipeTokenizer tokenizer_of(const Recipe& recipe) {
  const DataSection& data = recipe.data;
  if (!data.tokenizer && data.format != kTextFormat) {
    fail_at(recipe.origin_of("data"),
            "shards do not say how a text becomes their tokens; name what made them in data.tokenizer");
  }
  const Tokenizer& tokenizer =
      data.texts->tokenizer(data.tokenizer ? data.tokenizer->resolved : kBytesTokenizer);
  RecipeTokenizer found{.tokenizer = {data.texts, &tokenizer}, .end_of_text = tokenizer.end_of_text()};
  if (data.end_of_text) found.end_of_text = static_cast<int32_t>(*data.end_of_text);
  return found;
}

}  // namespace trainer
