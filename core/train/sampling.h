// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace trainer {

/// How a token is drawn from logits.
struct SamplingSettings {
  double temperature = 1;  ///< logits are divided by it; 0: the token with the largest logit
  int64_t top_k = 0;       ///< only this many of the largest; 0: all
  double top_p = 1;  ///< of these the fewest with probabilities that add up to at least it (nucleus sampling)
};

/// Draws tokens. Of equal logits the lower token comes first.
class TokenSampler {
 public:
  explicit TokenSampler(const SamplingSettings& settings) : settings_(settings) {}

  /// `draw` is in [0, 1). The softmax is in double. Throws Error (exit 70) if a logit is NaN or no
  /// largest one is finite.
  int32_t pick(std::span<const float> logits, double draw);

 private:
  void weigh(std::span<const float> logits, double largest);
  double keep_next();
  double keep_largest();

  /// exp((logit - largest) / temperature) of a token: the tokens' order.
  using Weighted = std::pair<double, int32_t>;
  SamplingSettings settings_;
  std::vector<Weighted> weights_;  ///< of the last logits: a heap; the kept ones are sorted in place
  std::vector<Weighted> kept_;
};

/// Uniform in [0, 1), 53 bits of Philox for a token: a function only of the seed, the sample's number and the
/// token's position.
double token_draw(uint64_t seed, int64_t sample, int64_t position);

}  // namespace trainer
