// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace trainer {
namespace {

constexpr std::array<std::string_view, 19> kMissingTexts = {
    "",     "#N/A", "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A",  "NA",       "NULL", "NaN",     "None",     "n/a",  "nan",  "null"};
/// For each character whether one of these texts begins with it.
constexpr auto kBeginsMissing = [] {
  std::array<bool, 256> begins{};
  for (const std::string_view text : kMissingTexts)
    if (!text.empty()) begins[static_cast<unsigned char>(text.front())] = true;
  return begins;
}();

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Numbers of any length, with exponents.
bool parse_long(std::string_view text, double& number) {
  const bool has_plus = text.starts_with('+');
  if (has_plus) text.remove_prefix(1);
  if (has_plus && text.starts_with('-')) return false;
  if (text.empty() ||
      (text.front() != '.' && (text.front() < '0' || text.front() > '9') && text.front() != '-'))
    return false;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && stop == text.data() + text.size() && std::isfinite(number);
}

}  // namespace

bool parse_number(std::string_view text, double& number) {
  if (!text.empty() && (is_blank(text.front()) || is_blank(text.back()))) text = without_blanks(text);
  if (text.empty()) return false;
  const char* const end = text.data() + text.size();
  return parse_digits(text.data(), end, number) == end || parse_long(text, number);
}

bool is_missing_value(std::string_view field) {
  if (field.empty()) return true;
  return kBeginsMissing[static_cast<unsigned char>(field.front())] &&
         std::ranges::find(kMissingTexts, field) != kMissingTexts.end();
}

}  // namespace trainer
