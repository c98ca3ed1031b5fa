// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/text/tokenizer.h"

namespace trainer {

/// The text of tokens as they come, in pieces of well-formed UTF-8: a character made of several tokens is
/// held back until it is complete.
class TextStream {
 public:
  /// The tokens follow `before`, if there is one, which is not part of any piece. Keeps a reference.
  explicit TextStream(const Tokenizer& tokenizer, std::optional<int32_t> before = std::nullopt);

  /// The text that this token completes; often empty, if it ends within a character.
  std::string add(int32_t token);
  /// The rest at the end, U+FFFD for an incomplete character.
  std::string finish();

 private:
  std::string pending_text() const;
  std::string take(const std::string& text);

  const Tokenizer& tokenizer_;
  /// The last token that was shown, then those that were not. Without it tokenizers that put blanks before
  /// words leave out the first one.
  std::vector<int32_t> tokens_;
  size_t shown_tokens_ = 0;  ///< 0 or 1
};

}  // namespace trainer
