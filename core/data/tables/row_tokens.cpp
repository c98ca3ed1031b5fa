// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/row_tokens.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "core/data/in_parallel.h"

namespace trainer {

RowTokens tokenize_rows(const Table& table, const Tokenizer& tokenizer, int64_t threads) {
  constexpr size_t kRows = 1024;  // of a part: an encoder knows the words that it met
  const size_t rows = table.texts.size();
  std::vector<RowTokens> parts((rows + kRows - 1) / kRows);
  in_parallel(parts.size(), threads, [&](size_t i) {
    const std::unique_ptr<TextEncoder> encoder = tokenizer.make_encoder();
    for (size_t row = i * kRows; row < std::min(rows, (i + 1) * kRows); ++row) {
      encoder->append(table.texts[row], parts[i].tokens);
      parts[i].ends.push_back(parts[i].tokens.size());
    }
  });
  RowTokens all;
  for (const RowTokens& part : parts) {
    for (const size_t end : part.ends) all.ends.push_back(all.tokens.size() + end);
    all.tokens.insert(all.tokens.end(), part.tokens.begin(), part.tokens.end());
  }
  return all;
}

int64_t PaddedText::read() const {
  return std::min(length, static_cast<int64_t>(tokens.size()));
}

void PaddedText::put_tokens(int32_t* into) const {
  std::fill_n(into, padding(), 0);
  std::copy_n(tokens.begin(), read(), into + padding());
}

void PaddedText::put_starts(int32_t* into) const {
  const auto first = static_cast<int32_t>(padding());
  std::iota(into, into + first, 0);
  std::fill(into + first, into + length, first);
}

void PaddedText::put_weights(float* into) const {
  std::fill_n(into, padding(), 0.0f);
  std::fill_n(into + padding(), read(), 1 / static_cast<float>(read()));
}

}  // namespace trainer
