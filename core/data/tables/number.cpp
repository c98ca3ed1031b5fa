// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace trainer {
namespace {

/// Powers of ten that a double holds exactly.
constexpr std::array<double, 16> kPowers = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                            1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
/// As many digits make a whole number that a double holds exactly.
constexpr int kExactDigits = 15;

constexpr std::array<std::string_view, 19> kMissingTexts = {
    "",     "#N/A", "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A",  "NA",       "NULL", "NaN",     "None",     "n/a",  "nan",  "null"};
/// The first characters of these texts.
constexpr std::string_view kFirstOfMissing = "#-1<Nn";

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
  const char *at = text.data(), *const end = at + text.size();
  const bool is_negative = at != end && *at == '-';
  at += is_negative ? 1 : 0;
  const char* const first = at;
  const char* point = nullptr;
  uint64_t digits = 0;
  // More digits than this are left to parse_long, and so is anything else.
  const char* const longest = first + std::min<std::ptrdiff_t>(end - first, kExactDigits + 1);
  for (; at != longest; ++at) {
    const auto digit = static_cast<unsigned char>(*at - '0');
    if (digit < 10) {
      digits = 10 * digits + digit;
    } else if (*at == '.' && point == nullptr) {
      point = at;
    } else {
      break;
    }
  }
  const std::ptrdiff_t count = at - first - (point == nullptr ? 0 : 1);
  if (at != end || count == 0 || count > kExactDigits) return parse_long(text, number);
  // One rounding: both operands are exact.
  const auto whole = static_cast<double>(digits);
  const double value = point == nullptr ? whole : whole / kPowers[static_cast<size_t>(at - point - 1)];
  number = is_negative ? -value : value;
  return true;
}

bool is_missing_value(std::string_view field) {
  if (field.empty()) return true;
  return kFirstOfMissing.find(field.front()) != std::string_view::npos &&
         std::ranges::find(kMissingTexts, field) != kMissingTexts.end();
}

}  // namespace trainer
