// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace trainer {

/// Finds positions where a text may be cut without a change of its tokens. Such a position is between two
/// known characters that are not adjacent in any piece of the model, and that normalization never changes.
class SentencePieceCuts {
 public:
  /// An unused piece may still be an intermediate step of another, but is not a known character.
  void add_piece(std::string_view piece, bool is_used);
  /// The first position at or after `least` where a part may end; the text's end if there is none. The next
  /// part begins with a letter, a digit, or one blank before these. `text` is well-formed UTF-8.
  size_t find(std::string_view text, size_t least) const;

 private:
  bool may_part(char32_t before, char32_t behind) const;

  std::unordered_set<uint64_t> pairs_;    ///< neighbours in pieces
  std::unordered_set<char32_t> singles_;  ///< characters that are pieces
};

}  // namespace trainer
