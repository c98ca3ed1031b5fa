// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/rng.h"

namespace trainer {

/// The draws for one of many numbered things, independent of those for the others.
inline RandomStream numbered_stream(uint64_t key, int64_t number) {
  const auto bits = static_cast<uint64_t>(number);
  return RandomStream(key, static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32));
}

/// Uniform in [0, 1) with 53 bits.
inline double next_uniform53(RandomStream& stream) {
  const uint64_t high = stream.next_word(), low = stream.next_word();
  return static_cast<double>((high << 32 | low) >> 11) * 0x1p-53;
}

/// A normal variable of this mean and deviation in [low, high], which contain the mean; the deviation is at
/// most their difference.
double next_truncated_normal(RandomStream& stream, double mean, double deviation, double low, double high);

}  // namespace trainer
