// SPDX-License-Identifier: Apache-2.0
#include "core/text/sentence_piece_cuts.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/text/utf8.h"

namespace trainer {
namespace {

/// A model's symbol for a blank.
constexpr char32_t kBlank = 0x2581;

/// Small letters, digits, syllables and ideographs that are their own NFKC and case folding if nothing
/// after composes with them. None is the second part of a composition.
constexpr std::array<std::pair<char32_t, char32_t>, 12> kPlain = {{{'0', '9'},
                                                                   {'a', 'z'},
                                                                   {0xE0, 0xF6},        // Latin
                                                                   {0xF8, 0xFF},        // Latin
                                                                   {0x430, 0x44F},      // Cyrillic
                                                                   {0x5D0, 0x5EA},      // Hebrew
                                                                   {0x621, 0x64A},      // Arabic
                                                                   {0xE01, 0xE30},      // Thai
                                                                   {0x3041, 0x3096},    // Hiragana
                                                                   {0x30A1, 0x30FA},    // Katakana
                                                                   {0x4E00, 0x9FFF},    // ideographs
                                                                   {0xAC00, 0xD7A3}}};  // Hangul

bool is_plain(char32_t code) {
  return std::ranges::any_of(kPlain,
                             [&](const auto& range) { return range.first <= code && code <= range.second; });
}

/// Whether the character at `at`, or the text's end, leaves the one before it unchanged. A mark composes.
bool leaves_alone(std::string_view text, size_t at) {
  if (at == text.size()) return true;
  const char32_t code = next_code_point(text, at);
  return code < 0x80 || is_plain(code);
}

bool is_continued(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

uint64_t pair_of(char32_t before, char32_t behind) {
  return uint64_t{before} << 32U | behind;
}

}  // namespace

void SentencePieceCuts::add_piece(std::string_view piece, bool is_used) {
  if (!is_utf8(piece)) return;
  char32_t before = 0;
  size_t count = 0;
  for (size_t at = 0; at < piece.size(); ++count) {
    char32_t code = next_code_point(piece, at);
    if (code == ' ') code = kBlank;
    if (count > 0) pairs_.insert(pair_of(before, code));
    before = code;
  }
  if (count == 1 && is_used) singles_.insert(before);
}

/// Adjacent unknown characters become one token, so one of the two has to be known.
bool SentencePieceCuts::may_part(char32_t before, char32_t behind) const {
  return is_plain(before) && singles_.contains(before) && !pairs_.contains(pair_of(before, behind));
}

size_t SentencePieceCuts::find(std::string_view text, size_t least) const {
  if (least == 0 || least >= text.size()) return text.size();
  size_t at = least;
  while (is_continued(text, at)) ++at;
  size_t start = at - 1;
  while (is_continued(text, start)) --start;
  char32_t before = next_code_point(text, start);
  while (at < text.size()) {
    size_t next = at;
    const char32_t here = next_code_point(text, next);
    if (is_plain(here) && leaves_alone(text, next) && may_part(before, here)) return at;
    if (here == ' ' && next < text.size() && may_part(before, kBlank)) {
      size_t behind = next;
      if (is_plain(next_code_point(text, behind))) return at;
    }
    before = here;
    at = next;
  }
  return text.size();
}

}  // namespace trainer
