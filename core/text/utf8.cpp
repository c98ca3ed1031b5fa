// SPDX-License-Identifier: Apache-2.0
#include "core/text/utf8.h"

#include <algorithm>

namespace trainer {
namespace {

struct Utf8Part {
  size_t bytes;
  bool is_character;
};

/// The character at the text's beginning, or the longest part that could begin one (Unicode, table 3-7).
Utf8Part first_part(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, true};
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return {1, false};
  // The second byte's range excludes overlong forms, surrogates, and code points above U+10FFFF.
  const unsigned least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size() || byte(i) < (i == 1 ? least : 0x80) || byte(i) > (i == 1 ? most : 0xBF))
      return {i, false};
  }
  return {length, true};
}

}  // namespace

char32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t first = byte(0);
  const size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t code = length == 1 ? first : first & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) code = (code << 6U) | (byte(i) & 0x3FU);
  at += length;
  return code;
}

void append_utf8(char32_t code, std::string& text) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto continuation = [&](unsigned shift) { put(0x80U | ((code >> shift) & 0x3FU)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0U | (code >> 6U));
  } else if (code < 0x10000) {
    put(0xE0U | (code >> 12U));
    continuation(6);
  } else {
    put(0xF0U | (code >> 18U));
    continuation(12);
    continuation(6);
  }
  continuation(0);
}

int64_t replace_malformed(std::string_view text, std::string& fixed) {
  int64_t count = 0;
  size_t copied = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Part part = first_part(text.substr(at));
    if (!part.is_character) {
      if (++count == 1) fixed.clear();
      fixed += text.substr(copied, at - copied);
      append_utf8(U'\xFFFD', fixed);
      copied = at + part.bytes;
    }
    at += part.bytes;
  }
  if (count > 0) fixed += text.substr(copied);
  return count;
}

size_t complete_bytes(std::string_view text) {
  constexpr size_t kMostPending = 3;
  for (size_t back = 1; back <= std::min(kMostPending, text.size()); ++back) {
    const std::string_view end = text.substr(text.size() - back);
    if ((static_cast<unsigned char>(end[0]) & 0xC0U) == 0x80) continue;
    const Utf8Part part = first_part(end);
    const bool can_begin =
        static_cast<unsigned char>(end[0]) >= 0xC2 && static_cast<unsigned char>(end[0]) <= 0xF4;
    return can_begin && !part.is_character && part.bytes == back ? text.size() - back : text.size();
  }
  return text.size();
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Part part = first_part(text);
    if (!part.is_character) return false;
    text.remove_prefix(part.bytes);
  }
  return true;
}

bool is_white_space(char32_t code) {
  switch (code) {
    case 0x20:
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return (code >= 0x9 && code <= 0xD) || (code >= 0x2000 && code <= 0x200A);
  }
}

}  // namespace trainer
