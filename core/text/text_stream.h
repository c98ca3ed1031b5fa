// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/tokenizer.h"

namespace trainer {

/// The text of tokens as they come, in pieces of well-formed UTF-8: all pieces together are what decoding all
/// tokens at once gives, with U+FFFD for malformed parts. A character made of several tokens is held back
/// until it is complete.
class TextStream {
 public:
  /// The tokens follow `before`, whose text is not part of any piece. Keeps a reference to the tokenizer.
  explicit TextStream(const Tokenizer& tokenizer, std::span<const int32_t> before = {});

  /// The text that this token completes; often empty, if it ends within a character.
  std::string add(int32_t token);
  /// The rest at the end, U+FFFD for an incomplete character.
  std::string finish();

 private:
  bool is_anchor(int32_t token) const;
  /// The text from `shown_` to `end`.
  std::string take(std::string_view text, size_t end);

  const Tokenizer& tokenizer_;
  /// An anchor and all tokens after it, or all there were: the text of later tokens depends on no other.
  std::vector<int32_t> tokens_;
  size_t shown_ = 0;  ///< bytes of their text that are part of earlier pieces
};

}  // namespace trainer
