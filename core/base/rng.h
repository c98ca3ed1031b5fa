// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/host_device.h"

namespace trainer {

/// Four 32-bit words: a counter, or the output of Philox for it.
struct Words {
  uint32_t v[4];
};

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a pure function of
/// key and counter, so that draws do not depend on threads, order or device. One of its ten rounds:
TRAINER_HD void philox_round(uint32_t key0, uint32_t key1, uint32_t& v0, uint32_t& v1, uint32_t& v2,
                             uint32_t& v3) {
  const uint64_t product0 = uint64_t{0xD2511F53u} * v0, product1 = uint64_t{0xCD9E8D57u} * v2;
  v0 = static_cast<uint32_t>(product1 >> 32) ^ v1 ^ key0;
  v1 = static_cast<uint32_t>(product1);
  v2 = static_cast<uint32_t>(product0 >> 32) ^ v3 ^ key1;
  v3 = static_cast<uint32_t>(product0);
}

/// All rounds, each with its own pair of keys.
template <class Round>
TRAINER_HD void philox_rounds(uint64_t key, const Round& round) {
  auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int i = 0; i < 10; ++i, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) round(key0, key1);
}

TRAINER_HD Words philox(uint64_t key, Words counter) {
  auto& v = counter.v;
  philox_rounds(key, [&](uint32_t key0, uint32_t key1) { philox_round(key0, key1, v[0], v[1], v[2], v[3]); });
  return counter;
}

/// Uniform in [0, 1) with 24 bits, exact in fp32.
TRAINER_HD float uniform(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// The counter of elements 4 b to 4 b + 3 of a sample in a step, for layers that draw for each element: b is
/// `four_elements`.
TRAINER_HD Words element_counter(int64_t four_elements, int32_t sample, int32_t step) {
  return {{static_cast<uint32_t>(four_elements), static_cast<uint32_t>(four_elements >> 32),
           static_cast<uint32_t>(sample), static_cast<uint32_t>(step)}};
}

/// A Philox key from a seed and the name of the consumer (a parameter, a layer's path): 64-bit FNV-1a.
constexpr uint64_t random_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  auto mix = [&hash](uint8_t byte) { hash = (hash ^ byte) * 0x100000001B3u; };
  for (int shift = 0; shift < 64; shift += 8) mix(static_cast<uint8_t>(seed >> shift));
  for (char c : name) mix(static_cast<uint8_t>(c));
  return hash;
}

/// A sequence of draws for code that needs "the next number": augmentation of one sample, a shuffle.
class RandomStream {
 public:
  TRAINER_HD explicit RandomStream(uint64_t key, uint32_t high = 0, uint32_t higher = 0)
      : key_(key), counter_{{0, 0, high, higher}} {}

  TRAINER_HD uint32_t next_word() {
    if (used_ == 4) {
      block_ = philox(key_, counter_);
      ++counter_.v[0];
      used_ = 0;
    }
    return block_.v[used_++];
  }
  TRAINER_HD float next_uniform() { return uniform(next_word()); }
  /// Whole number in [0, bound), bound >= 1; the bias of at most bound / 2^32 is negligible.
  TRAINER_HD int64_t next_below(int64_t bound) {
    return static_cast<int64_t>((static_cast<uint64_t>(next_word()) * static_cast<uint64_t>(bound)) >> 32);
  }

 private:
  uint64_t key_;
  Words counter_;
  Words block_{};
  int used_ = 4;
};

}  // namespace trainer
