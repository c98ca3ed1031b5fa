// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trainer {

/// Byte-pair encoding (Sennrich, Haddow and Birch, 2016, arXiv:1508.07909) of words of bytes: the pair of
/// neighbours that was merged first in training becomes one token, until no pair is left.
class Bpe {
 public:
  struct Merge {
    int32_t rank = 0, token = 0;
  };

  /// `bytes`: the token of each byte.
  explicit Bpe(const std::array<int32_t, 256>& bytes) : bytes_(bytes) {}

  /// The result of merging two neighbours; the last merge of a pair counts.
  void add(int32_t left, int32_t right, const Merge& merge) { merges_[pair_of(left, right)] = merge; }

  /// Appends the tokens of a word of n bytes in O(n log n).
  void encode(std::string_view word, std::vector<int32_t>& tokens) const;

 private:
  static uint64_t pair_of(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32U) | static_cast<uint32_t>(right);
  }
  const Merge* find(int32_t left, int32_t right) const {
    const auto found = merges_.find(pair_of(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }

  std::array<int32_t, 256> bytes_;
  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace trainer
