// SPDX-License-Identifier: Apache-2.0
#include "core/text/text_stream.h"

#include <algorithm>
#include <string_view>

#include "core/text/utf8.h"

namespace trainer {
namespace {

/// Bytes of the longest character, and so the largest number of tokens to wait for.
constexpr size_t kMostBytes = 4;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

size_t bytes_of_character(unsigned char first) {
  if (first >= 0xF0) return 4;
  if (first >= 0xE0) return 3;
  return first >= 0xC0 ? 2 : 1;
}

/// Whether more bytes may complete a character at its end. Some tokenizers put U+FFFD there themselves.
bool ends_within_character(std::string_view text) {
  if (text.ends_with(kReplacement)) return true;
  for (size_t back = 1; back <= std::min(kMostBytes, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) != 0x80) return bytes_of_character(byte) > back;
  }
  return false;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::optional<int32_t> before) : tokenizer_(tokenizer) {
  if (!before) return;
  tokens_.push_back(*before);
  shown_tokens_ = 1;
}

std::string TextStream::pending_text() const {
  const std::string all = tokenizer_.decode(tokens_);
  const size_t shown = tokenizer_.decode(std::span(tokens_).first(shown_tokens_)).size();
  return all.substr(std::min(shown, all.size()));
}

std::string TextStream::take(const std::string& text) {
  tokens_.erase(tokens_.begin(), tokens_.end() - 1);
  shown_tokens_ = 1;
  std::string fixed;
  return replace_malformed(text, fixed) > 0 ? fixed : text;
}

std::string TextStream::add(int32_t token) {
  tokens_.push_back(token);
  const std::string text = pending_text();
  const bool waits = ends_within_character(text) && tokens_.size() - shown_tokens_ < kMostBytes;
  return waits ? "" : take(text);
}

std::string TextStream::finish() {
  return tokens_.size() > shown_tokens_ ? take(pending_text()) : "";
}

}  // namespace trainer
