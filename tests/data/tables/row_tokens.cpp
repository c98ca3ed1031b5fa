// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/row_tokens.h"

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/catch.h"

namespace trainer {
namespace {

TEST_CASE("a table's texts: padding comes first, and counts for no position and no average") {
  const std::vector<int32_t> tokens = {7, 8, 9};
  const auto put = [&](int64_t length) {
    const PaddedText text{.tokens = tokens, .length = length};
    std::vector<int32_t> places(static_cast<size_t>(length), -1), starts = places;
    std::vector<float> weights(static_cast<size_t>(length), -1);
    text.put_tokens(places.data());
    text.put_starts(starts.data());
    text.put_weights(weights.data());
    return std::tuple(places, starts, weights);
  };
  using Integers = std::vector<int32_t>;
  using Floats = std::vector<float>;
  CHECK(put(5) == std::tuple(Integers{0, 0, 7, 8, 9}, Integers{0, 1, 2, 2, 2},
                             Floats{0, 0, 1.0f / 3, 1.0f / 3, 1.0f / 3}));
  CHECK(put(3) == std::tuple(Integers{7, 8, 9}, Integers{0, 0, 0}, Floats{1.0f / 3, 1.0f / 3, 1.0f / 3}));
  CHECK(put(2) == std::tuple(Integers{7, 8}, Integers{0, 0}, Floats{0.5f, 0.5f}));
  const PaddedText empty{.tokens = {}, .length = 2};
  std::vector<float> weights(2, -1);
  empty.put_weights(weights.data());
  CHECK(weights == Floats{0, 0});
}

TEST_CASE("a table's texts: tokens of each row, by any number of threads") {
  Table table;
  for (int row = 0; row < 3000; ++row) table.texts.push_back(std::string(static_cast<size_t>(row % 5), 'a'));
  const std::unique_ptr<Tokenizer> bytes = byte_tokenizer();
  const RowTokens one = tokenize_rows(table, *bytes, 1), two = tokenize_rows(table, *bytes, 2);
  CHECK(one.tokens == two.tokens);
  CHECK(one.ends == two.ends);
  for (const int row : {0, 4, 1023, 1024, 2999}) CHECK(one[row].size() == static_cast<size_t>(row % 5));
}

}  // namespace
}  // namespace trainer
