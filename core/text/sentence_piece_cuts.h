// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace trainer {

/// Where a text may be cut without a change of its tokens: between two characters that no piece of the model
/// has side by side, that the model knows, and that normalization leaves alone, whatever is beside them.
class SentencePieceCuts {
 public:
  /// One that is not used may still be a step on the way to another, but is no known character.
  void add_piece(std::string_view piece, bool is_used);
  /// The first place at or after `least` where a part may end; the text's end where there is none. The next
  /// part begins with a letter, a digit, or one blank before these. `text` is well-formed UTF-8.
  size_t find(std::string_view text, size_t least) const;

 private:
  bool may_part(char32_t before, char32_t behind) const;

  std::unordered_set<uint64_t> pairs_;    ///< neighbours in pieces
  std::unordered_set<char32_t> singles_;  ///< characters that are pieces
};

}  // namespace trainer
