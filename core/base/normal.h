// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/math.h"
#include "core/base/rng.h"

namespace trainer {

/// What two words of Philox make, one number for each.
template <class T>
struct DrawnPair {
  T first, second;
};

/// Two independent numbers from the standard normal distribution, at most 5.77 in size (Box, Muller, "A note
/// on the generation of random normal deviates", 1958). In float they are the same on CPU and GPU.
template <class T>
TRAINER_HD DrawnPair<T> normal_pair(uint32_t a, uint32_t b) {
  const T length = math::sqrt(T(-2) * math::ln(T(1) - T(uniform(a))));  // of (0, 1]
  const math::Direction<T> direction = math::direction(T(uniform(b)));
  return {length * direction.cosine, length * direction.sine};
}

}  // namespace trainer
