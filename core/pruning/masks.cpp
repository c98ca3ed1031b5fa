// SPDX-License-Identifier: Apache-2.0
#include "core/pruning/masks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace trainer {
namespace {

/// Bits that are ordered as magnitudes are, those of NaN above infinity's.
uint32_t magnitude_of(float weight) {
  return std::bit_cast<uint32_t>(weight) & 0x7fffffffU;
}
uint32_t high_half(uint32_t bits) {
  return bits >> 16;
}
uint32_t low_half(uint32_t bits) {
  return bits & 0xffffU;
}

/// The first bucket with which the counts add up to more than `left`, which loses the counts before it.
uint32_t find_bucket(const std::vector<int64_t>& counts, int64_t& left) {
  for (uint32_t bucket = 0; bucket < counts.size(); ++bucket) {
    if (left < counts[bucket]) return bucket;
    left -= counts[bucket];
  }
  return static_cast<uint32_t>(counts.size());
}

}  // namespace

int64_t pruned_count(double share, int64_t count) {
  return static_cast<int64_t>(std::nearbyint(share * static_cast<double>(count)));
}

void LeastWeights::look(std::span<const float> weights, std::span<const uint8_t> mask) {
  for (const float weight : weights) ++high_counts_[high_half(magnitude_of(weight))];
  masked_ += std::ranges::count(mask, uint8_t{0});
}

void LeastWeights::narrow() {
  high_ = find_bucket(high_counts_, left_);
  low_counts_.assign(kBuckets, 0);
}

void LeastWeights::look_again(std::span<const float> weights) {
  for (const float weight : weights) {
    const uint32_t bits = magnitude_of(weight);
    if (high_half(bits) == high_) ++low_counts_[low_half(bits)];
  }
}

void LeastWeights::decide() {
  const uint32_t low = find_bucket(low_counts_, left_);
  magnitude_ = (uint64_t{high_} << 16) + low;
  equal_ = magnitude_ == 0 ? std::max<int64_t>(0, left_ - masked_) : left_;
}

void LeastWeights::mask(std::span<float> weights, std::span<uint8_t> mask) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const uint32_t bits = magnitude_of(weights[i]);
    const bool is_masked = mask[i] == 0;
    if (!is_masked && bits >= magnitude_ && (bits > magnitude_ || equal_ == 0)) continue;
    if (!is_masked && bits == magnitude_) --equal_;
    weights[i] = 0;
    mask[i] = 0;
  }
}

void mask_two_of_four(std::span<float> weights, std::span<uint8_t> mask, std::span<const int64_t> shape,
                      size_t dimension) {
  const auto from = shape.begin() + static_cast<std::ptrdiff_t>(dimension) + 1;
  const auto step = static_cast<size_t>(std::accumulate(from, shape.end(), int64_t{1}, std::multiplies<>()));
  for (size_t first = 0; first < weights.size(); ++first) {
    if (first / step % 4 != 0) continue;
    std::array<size_t, 4> places = {first, first + step, first + 2 * step, first + 3 * step};
    std::ranges::stable_sort(places, std::greater<>(), [&](size_t place) {
      return std::pair(mask[place] != 0, magnitude_of(weights[place]));
    });
    for (const size_t place : {places[2], places[3]}) {
      weights[place] = 0;
      mask[place] = 0;
    }
  }
}

}  // namespace trainer
