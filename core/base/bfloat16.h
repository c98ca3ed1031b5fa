// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace trainer {

/// The upper half of an fp32 number: how it is stored, not computed with. Conversion rounds to nearest, ties
/// to even; NaN stays NaN.
struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto wide = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (wide + 0x7FFFU + (wide >> 16 & 1U)) >> 16, quiet = wide >> 16 | 0x40U;
    const uint32_t nan = (wide & 0x7FFFFFFFU) > 0x7F800000U ? ~0U : 0U;
    bits = static_cast<uint16_t>((rounded & ~nan) | (quiet & nan));
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

/// Stores a number as either type. Written so that loops over it become vectors, which an assignment of the
/// whole does not.
inline void put(float value, float& to) {
  to = value;
}
inline void put(float value, BFloat16& to) {
  to.bits = BFloat16(value).bits;
}

}  // namespace trainer
