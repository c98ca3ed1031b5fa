// SPDX-License-Identifier: Apache-2.0
#include "core/text/byte_level.h"

#include <array>
#include <cstddef>

#include "core/text/utf8.h"

namespace trainer {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> kCharacters = [] {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) characters[byte] = stands_for_itself(byte) ? byte : next++;
  return characters;
}();

/// By character; the last one is U+0143.
constexpr std::array<int, 0x144> kBytes = [] {
  std::array<int, 0x144> bytes{};
  for (int& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[kCharacters[static_cast<size_t>(byte)]] = byte;
  return bytes;
}();

}  // namespace

std::optional<std::string> bytes_of_token(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    if (code >= kBytes.size() || kBytes[code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kBytes[code]));
  }
  return bytes;
}

char32_t character_of_byte(uint8_t byte) {
  return kCharacters[byte];
}

}  // namespace trainer
