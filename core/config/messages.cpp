// SPDX-License-Identifier: Apache-2.0
#include "core/config/messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/printable.h"
#include "core/config/environment.h"
#include "core/config/other_names.h"

namespace trainer {

std::string shown(const std::string& text) {
  constexpr size_t kLongest = 60;
  const std::string line = one_line(text);
  size_t end = std::min(kLongest, line.size());
  while (end < line.size() && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80)
    ++end;  // a UTF-8 sequence is never cut
  return end < line.size() ? line.substr(0, end) + "..." : line;
}

std::string shown_text(const Value& value) {
  return shown(reads_environment(value.raw) ? value.raw : value.text);
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
  return fmt::format("{}'{}'", value.quoted ? "the quoted text " : "", shown_text(value));
}

std::string listed(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string join_path(const std::string& map_path, const std::string& key) {
  return map_path.empty() ? key : map_path + "." + key;
}

std::string suggestion(const std::string& name, const std::vector<std::string>& candidates) {
  if (const auto near = meant(name, candidates)) return fmt::format("; did you mean '{}'?", *near);
  return candidates.empty() ? "" : "; known: " + listed(candidates);
}

}  // namespace trainer
