// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainer {

/// How many of `count` weights a share is, as PyTorch rounds: halves to the even number.
int64_t pruned_count(double share, int64_t count);

/// The weights of least magnitude of one or several tensors. Those already masked, which are zero, come
/// first; among equal magnitudes those of earlier tensors, and of lower index, are less. NaN is more than
/// infinity. So masks only grow, and the same weights and masks always give the same result.
///
/// Tensors are shown three times in the same order, so that a caller need hold one of them only:
///
///     LeastWeights least(count);
///     for each tensor: least.look(weights, mask);
///     least.narrow();
///     for each tensor: least.look_again(weights);
///     least.decide();
///     for each tensor: least.mask(weights, mask);
class LeastWeights {
 public:
  /// To take out this many of all weights, those already masked included.
  explicit LeastWeights(int64_t count) : left_(count), high_counts_(kBuckets, 0) {}

  void look(std::span<const float> weights, std::span<const uint8_t> mask);
  void narrow();
  void look_again(std::span<const float> weights);
  void decide();
  /// Sets weight and mask to 0 where a weight is taken out.
  void mask(std::span<float> weights, std::span<uint8_t> mask);

 private:
  /// Magnitudes by half of their bits.
  static constexpr size_t kBuckets = size_t{1} << 16;

  int64_t left_;        ///< to take out, of the present bucket and those above
  int64_t masked_ = 0;  ///< already
  std::vector<int64_t> high_counts_, low_counts_;
  uint32_t high_ = 0;       ///< half of the bits of the largest magnitude that is taken out
  uint64_t magnitude_ = 0;  ///< all below are taken out; more than any if all are
  int64_t equal_ = 0;       ///< weights of just this magnitude that are still to be taken out
};

/// Masks two of each four neighbours along a dimension, those of least magnitude, as sparse tensor cores
/// expect it (Mishra et al., "Accelerating sparse deep neural networks", 2021). Those already masked
/// are the least, and of equal ones the later. `shape` is that of the weights; its size along the dimension
/// is a multiple of four.
void mask_two_of_four(std::span<float> weights, std::span<uint8_t> mask, std::span<const int64_t> shape,
                      size_t dimension);

}  // namespace trainer
