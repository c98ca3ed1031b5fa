// SPDX-License-Identifier: Apache-2.0
#include "core/base/printable.h"

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>

namespace trainer {
namespace {

uint8_t byte_at(std::string_view text, size_t i) {
  return i < text.size() ? static_cast<uint8_t>(text[i]) : 0;
}

/// U+0080 to U+009F, the second set of control characters, which have two bytes in UTF-8.
bool is_second_set(std::string_view text, size_t i) {
  return byte_at(text, i) == 0xC2 && byte_at(text, i + 1) >= 0x80 && byte_at(text, i + 1) <= 0x9F;
}

bool is_control(uint8_t byte) {
  return byte < 0x20 || byte == 0x7F;
}

/// Of three bytes: U+200B to U+200F and U+2028 to U+202E (no width, directions, ends of lines), U+2060 to
/// U+206F (the same), U+FEFF (byte-order mark); else 0.
uint32_t invisible(std::string_view text, size_t i) {
  const uint8_t a = byte_at(text, i), b = byte_at(text, i + 1), c = byte_at(text, i + 2);
  const bool of_general_punctuation =
      a == 0xE2 && ((b == 0x80 && ((c >= 0x8B && c <= 0x8F) || (c >= 0xA8 && c <= 0xAE))) ||
                    (b == 0x81 && c >= 0xA0 && c <= 0xAF));
  if (!of_general_punctuation && !(a == 0xEF && b == 0xBB && c == 0xBF)) return 0;
  return (a & 0x0Fu) << 12 | (b & 0x3Fu) << 6 | (c & 0x3Fu);
}

std::string escaped(std::string_view text, bool is_name) {
  std::string line;
  line.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const uint8_t byte = byte_at(text, i);
    if (is_second_set(text, i)) {
      line += fmt::format("\\u{:04x}", byte_at(text, ++i));
    } else if (const uint32_t character = is_name ? invisible(text, i) : 0; character != 0) {
      line += fmt::format("\\u{:04x}", character);
      i += 2;
    } else if (is_name && (byte == '\n' || byte == '\t')) {
      line += byte == '\n' ? "\\n" : "\\t";
    } else if (is_control(byte) && byte != '\n' && byte != '\t') {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += text[i];
    }
  }
  return line;
}

}  // namespace

std::string printable(std::string_view text) {
  return escaped(text, false);
}

std::string one_line(std::string_view text) {
  return escaped(text, true);
}

}  // namespace trainer
