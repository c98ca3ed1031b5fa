// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainer {

// GPT-2's files write bytes as characters that can be seen: the printable ones of Latin-1 as themselves, the
// others from U+0100 on (https://github.com/openai/gpt-2, src/encoder.py, bytes_to_unicode).

/// The bytes of a token's text; nothing if a character represents none.
std::optional<std::string> bytes_of_token(std::string_view text);

/// The character that represents a byte.
char32_t character_of_byte(uint8_t byte);

}  // namespace trainer
