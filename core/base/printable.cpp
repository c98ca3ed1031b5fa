// SPDX-License-Identifier: Apache-2.0
#include "core/base/printable.h"

namespace trainer {

std::string printable(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    // U+0080 to U+009F, the second set of control characters, have two bytes in UTF-8.
    const bool is_second_set = byte == 0xC2 && next >= 0x80 && next <= 0x9F;
    const bool is_control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F || is_second_set;
    line += is_control ? '?' : text[i];
    i += is_second_set ? 1 : 0;
  }
  return line;
}

}  // namespace trainer
