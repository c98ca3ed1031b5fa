// SPDX-License-Identifier: Apache-2.0
#include "core/text/text_stream.h"

#include <algorithm>

#include "core/text/utf8.h"

namespace trainer {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// The length of the text that later tokens cannot change. SentencePiece itself writes U+FFFD for each byte
/// of an incomplete character, which has at most three.
size_t settled_bytes(std::string_view text) {
  size_t end = complete_bytes(text);
  for (int i = 0; i < 3 && text.substr(0, end).ends_with(kReplacement); ++i) end -= kReplacement.size();
  return end;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const int32_t> before) : tokenizer_(tokenizer) {
  size_t first = before.size();
  while (first > 0 && (first == before.size() || !is_anchor(before[first]))) --first;
  tokens_.assign(before.begin() + static_cast<std::ptrdiff_t>(first), before.end());
  shown_ = tokenizer_.decode(tokens_).size();
}

/// Whether a text that begins with this token decodes as if there were more before it. SentencePiece drops
/// blanks until something else has come, and joins tokens that are single bytes.
bool TextStream::is_anchor(int32_t token) const {
  const std::string text = tokenizer_.decode(std::span(&token, 1));
  const bool is_blank = text.find_first_not_of(' ') == std::string::npos;
  return !is_blank && settled_bytes(text) == text.size() && is_utf8(text);
}

std::string TextStream::take(std::string_view text, size_t end) {
  const std::string_view piece = text.substr(std::min(shown_, end), end - std::min(shown_, end));
  shown_ = std::max(shown_, end);
  std::string fixed;
  return replace_malformed(piece, fixed) > 0 ? fixed : std::string(piece);
}

std::string TextStream::add(int32_t token) {
  tokens_.push_back(token);
  const std::string text = tokenizer_.decode(tokens_);
  std::string piece = take(text, settled_bytes(text));
  if (shown_ == text.size() && is_anchor(token)) {
    tokens_ = {token};
    shown_ = tokenizer_.decode(tokens_).size();
  }
  return piece;
}

std::string TextStream::finish() {
  const std::string text = tokenizer_.decode(tokens_);
  return take(text, text.size());
}

}  // namespace trainer
