// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainer {

/// Draws samples with replacement, each as often as its weight, as torch's WeightedRandomSampler does.
class SampleDraw {
 public:
  /// Weights are finite and at least 0; throws Error (exit 65) if all are 0 or their sum is not finite.
  explicit SampleDraw(std::span<const double> weights);

  /// The sample at place `index` of an epoch: a pure function, in O(log n).
  int64_t sample(uint64_t seed, int64_t epoch, int64_t index) const;

 private:
  std::vector<double> sums_;  // of the weights up to each sample
  int64_t last_ = 0;          // sample with a weight
};

}  // namespace trainer
