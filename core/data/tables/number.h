// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trainer {

/// Reads a finite decimal number, with blanks around it, correctly rounded. False for another text.
bool parse_number(std::string_view text, double& number);

/// Reads such a number of at most 15 digits, without blanks and exponents, from the beginning of a text, and
/// returns the end of its digits; null if there is none, or more of them. For loops over many fields.
inline __attribute__((always_inline)) const char* parse_digits(const char* at, const char* end,
                                                               double& number) {
  constexpr std::array<double, 16> kPowers = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                              1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  constexpr std::array<double, 2> kSigns = {1, -1};  // signs alternate at random: no branch
  const bool is_negative = at != end && *at == '-';
  at += is_negative ? 1 : 0;
  uint64_t digits = 0;
  const auto take = [&] {
    const char* const begin = at;
    for (unsigned digit = 0; at != end && (digit = static_cast<unsigned char>(*at) - unsigned{'0'}) < 10;
         ++at)
      digits = 10 * digits + digit;
    return static_cast<size_t>(at - begin);
  };
  size_t count = take(), fraction = 0;
  if (at != end && *at == '.') {
    ++at;
    fraction = take();
    count += fraction;
  }
  if (count == 0 || count >= kPowers.size()) return nullptr;
  // One rounding: a double holds both operands exactly.
  number = static_cast<double>(digits) / kPowers[fraction] * kSigns[is_negative ? 1 : 0];
  return at;
}

/// Whether a field stands for a missing value: one of pandas' texts, such as "", NA, NaN and null.
bool is_missing_value(std::string_view field);

}  // namespace trainer
