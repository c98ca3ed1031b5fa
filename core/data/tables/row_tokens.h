// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/data/tables/table.h"
#include "core/text/tokenizer.h"

namespace trainer {

/// The tokens of the text of each row of a table.
struct RowTokens {
  std::vector<int32_t> tokens;  ///< one row after another
  std::vector<size_t> ends;     ///< of each row

  std::span<const int32_t> operator[](int64_t row) const {
    const auto at = static_cast<size_t>(row);
    const size_t begin = at == 0 ? 0 : ends[at - 1];
    return std::span(tokens).subspan(begin, ends[at] - begin);
  }
  int64_t bytes() const {
    return static_cast<int64_t>(tokens.size() * sizeof(int32_t) + ends.size() * sizeof(size_t));
  }
};

/// Several threads take rows.
RowTokens tokenize_rows(const Table& table, const Tokenizer& tokenizer, int64_t threads);

/// A text in `length` places: its first tokens, at the end of these places, after padding if it has fewer. So
/// its last token is always at the last place.
struct PaddedText {
  std::span<const int32_t> tokens;
  int64_t length = 0;

  int64_t read() const;  ///< tokens that fit
  int64_t padding() const { return length - read(); }
  /// 0 for padding.
  void put_tokens(int32_t* into) const;
  /// Where each token's document begins: the text's at its first token, that of padding at itself, so that
  /// positions count from the text's beginning and no token of it attends to padding.
  void put_starts(int32_t* into) const;
  /// Of each token in their average; 0 for padding.
  void put_weights(float* into) const;
};

}  // namespace trainer
