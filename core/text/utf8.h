// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trainer {

/// The code point at `at` of well-formed UTF-8; `at` moves past it.
char32_t next_code_point(std::string_view text, size_t& at);

void append_utf8(char32_t code, std::string& text);

/// If the text is not well-formed, writes it to `fixed` with U+FFFD for each malformed part, a maximal one
/// as Unicode recommends (3.9, "U+FFFD Substitution of Maximal Subparts"), as Python and Rust do. Returns the
/// number of these parts; with 0, `fixed` is left alone.
int64_t replace_malformed(std::string_view text, std::string& fixed);

/// The length of the text without its last part, if more bytes could make a character of it.
size_t complete_bytes(std::string_view text);

/// Whether all of it is well-formed.
bool is_utf8(std::string_view text);

/// Unicode's property White_Space, the meaning of `\s` in the reference tokenizers.
bool is_white_space(char32_t code);

}  // namespace trainer
