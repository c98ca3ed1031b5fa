// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/csv_row.h"

namespace trainer {
namespace {

std::string quoted(const std::string& text) {
  const bool is_plain =
      text.find_first_of(",\"\r\n") == std::string::npos && !text.starts_with(' ') && !text.ends_with(' ');
  if (is_plain) return text;
  std::string value = "\"";
  for (const char c : text) value += c == '"' ? std::string("\"\"") : std::string(1, c);
  return value + "\"";
}

}  // namespace

std::string csv_row(const std::vector<std::string>& values) {
  std::string line;
  for (const std::string& value : values) line += (&value == &values.front() ? "" : ",") + quoted(value);
  return line + "\n";
}

}  // namespace trainer
