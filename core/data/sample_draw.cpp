// SPDX-License-Identifier: Apache-2.0
#include "core/data/sample_draw.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace trainer {

SampleDraw::SampleDraw(std::span<const double> weights) {
  double sum = 0;
  sums_.reserve(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) last_ = static_cast<int64_t>(i);
    sums_.push_back(sum += weights[i]);
  }
  if (sum == 0) throw Error(ExitCode::data, "data.sample_weights: no training sample has a weight above 0");
  if (!std::isfinite(sum)) throw Error(ExitCode::data, "data.sample_weights: their sum is too large");
}

/// The first sample whose sum is above a uniform number below the whole sum: one of weight 0 never is.
int64_t SampleDraw::sample(uint64_t seed, int64_t epoch, int64_t index) const {
  const auto place = static_cast<uint64_t>(index), period = static_cast<uint64_t>(epoch);
  const Words words = philox(random_key(seed, "sample weights"),
                             {{static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32),
                               static_cast<uint32_t>(period), static_cast<uint32_t>(period >> 32)}});
  const uint64_t bits = (uint64_t{words.v[0]} << 32 | words.v[1]) >> 11;
  const double target = static_cast<double>(bits) * 0x1p-53 * sums_.back();
  const auto found = std::upper_bound(sums_.begin(), sums_.end(), target);
  return std::min<int64_t>(found - sums_.begin(), last_);
}

}  // namespace trainer
