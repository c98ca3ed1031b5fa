// SPDX-License-Identifier: Apache-2.0
#include "core/config/messages.h"

#include <fmt/format.h>

#include "core/config/fields.h"

namespace trainer {

std::string shown(const std::string& text) {
  constexpr size_t kLongest = 60;
  std::string line;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues = (byte & 0xC0) == 0x80;  // a UTF-8 sequence is never cut
    if (line.size() >= kLongest && !continues) return line + "...";
    line += byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  return line;
}

std::string describe(const Value& value) {
  switch (value.kind) {
    case Value::Kind::null:
      return "nothing";
    case Value::Kind::list:
      return "a list";
    case Value::Kind::map:
      return "a map";
    case Value::Kind::scalar:
      break;
  }
  return fmt::format("{}'{}'", value.quoted ? "the quoted text " : "", shown(value.text));
}

std::string listed(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string join_path(const std::string& map_path, const std::string& key) {
  return map_path.empty() ? key : map_path + "." + key;
}

std::string suggestion(const std::string& name, const std::vector<std::string>& candidates) {
  if (const auto near = nearest(name, candidates)) return fmt::format("; did you mean '{}'?", *near);
  return candidates.empty() ? "" : "; known: " + listed(candidates);
}

}  // namespace trainer
