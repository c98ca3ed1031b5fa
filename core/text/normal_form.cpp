// SPDX-License-Identifier: Apache-2.0
#include "core/text/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

namespace trainer {
namespace {

/// No character before U+0300, with the first byte 0xCC, combines with the one before it.
bool may_combine(char byte) {
  return static_cast<unsigned char>(byte) >= 0xCC;
}

void append_composed(std::string_view line, std::string& text) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(line.data()), static_cast<utf8proc_ssize_t>(line.size()),
      &result, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  if (size < 0) throw std::bad_alloc();  // the text is well-formed
  text.append(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
}

/// Takes U+11A7 for the beginning of a part. utf8proc takes it for a final consonant and drops it after a
/// syllable (https://github.com/JuliaStrings/utf8proc/pull/317), but nothing combines with it.
void append_parts(std::string_view line, std::string& text) {
  constexpr std::string_view kNoConsonant = "\xE1\x86\xA7";
  while (!line.empty()) {
    const std::string_view part = line.substr(0, line.find(kNoConsonant, 1));
    append_composed(part, text);
    line.remove_prefix(part.size());
  }
}

}  // namespace

/// Line by line: the text after a line's end never combines with it, and utf8proc needs memory for its input.
std::string_view composed(std::string_view text, std::string& storage) {
  if (std::ranges::none_of(text, may_combine)) return text;
  storage.clear();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string_view line = text.substr(begin, end == std::string_view::npos ? end : end + 1 - begin);
    if (std::ranges::any_of(line, may_combine)) {
      append_parts(line, storage);
    } else {
      storage += line;
    }
    begin += line.size();
  }
  return storage;
}

}  // namespace trainer
