// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace trainer {

/// IEEE 754's binary16: how it is stored, not computed with. Conversion rounds to nearest, ties to even;
/// values too large become infinite, NaN stays NaN.
struct Float16 {
  uint16_t bits;

  Float16() = default;
  explicit Float16(float value) {
    const auto wide = std::bit_cast<uint32_t>(value);
    const uint32_t sign = wide >> 16 & 0x8000U, magnitude = wide & 0x7FFFFFFFU;
    uint32_t narrow = 0;
    if (magnitude > 0x7F800000U) {
      narrow = 0x7E00U | (magnitude >> 13 & 0x3FFU);  // NaN, made quiet
    } else if (magnitude >= 0x477FF000U) {
      narrow = 0x7C00U;  // from half a unit above 65504 on: infinite
    } else if (magnitude >= 0x38800000U) {
      // A normal number: the exponent's bias goes from 127 to 15, and 13 digits are rounded off.
      narrow = (magnitude - 0x38000000U + 0xFFFU + (magnitude >> 13 & 1U)) >> 13;
    } else {
      // A multiple of 2^-24, in the last digits of 0.5, where fp32 has just that unit: the sum rounds.
      narrow =
          std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
    }
    bits = static_cast<uint16_t>(sign | narrow);
  }
  explicit operator float() const {
    const int exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
    float magnitude = std::ldexp(static_cast<float>(fraction + (exponent == 0 ? 0 : 0x400)),
                                 (exponent == 0 ? 1 : exponent) - 25);
    if (exponent == 0x1F)
      magnitude = std::bit_cast<float>(0x7F800000U | static_cast<uint32_t>(fraction) << 13);
    return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
  }
};

}  // namespace trainer
