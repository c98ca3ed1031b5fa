// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/host_device.h"

namespace trainer {

/// Four 32-bit words: a counter, or what Philox makes of it.
struct Words {
  uint32_t v[4];
};

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a pure function of
/// key and counter, so that draws do not depend on threads, order or device.
TRAINER_HD Words philox(uint64_t key, Words counter) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kMultiplier0) * counter.v[0];
    const uint64_t product1 = static_cast<uint64_t>(kMultiplier1) * counter.v[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.v[1] ^ key0, static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.v[3] ^ key1,
                static_cast<uint32_t>(product0)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

/// Uniform in [0, 1) with 24 bits, exact in fp32.
TRAINER_HD float uniform(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// A Philox key from a seed and the name of what draws (a parameter, a layer's path): 64-bit FNV-1a.
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
  /// Whole number in [0, bound), bound >= 1; the bias of at most bound / 2^32 is below what anyone can see.
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
