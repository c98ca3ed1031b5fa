// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trainer {

/// `steps` rates that grow by the same factor from `from` to `to`; steps >= 2.
std::vector<float> rising_rates(double from, double to, int64_t steps);

/// The exponential moving average of losses, without the bias of its start.
class LossAverage {
 public:
  void add(double loss);
  double value() const { return average_; }
  /// Whether training has diverged: the average is not finite, or four times its least value.
  bool has_diverged() const;

 private:
  double sum_ = 0, weight_ = 1, average_ = 0;
  std::optional<double> least_;
};

/// The smoothed losses of short trainings whose learning rate rose with each step.
struct RateCurve {
  std::vector<double> rates, losses;  ///< of each step before the first training diverged
  std::optional<double> diverged_at;  ///< the lowest rate at which one did
  double noise = 0;                   ///< standard deviation of a smoothed loss, at the first rates
};

/// The curve of several trainings with the same rates: the mean of their averages. Each list of losses ends
/// where its training has diverged, with the loss that showed it.
RateCurve rate_curve(std::span<const float> rates, const std::vector<std::vector<double>>& losses);

/// Rates that the shape of a curve suggests.
struct RateSuggestions {
  double steepest = 0;          ///< where the loss falls fastest in the logarithm of the rate
  double valley = 0;            ///< two thirds along the longest stretch on which it falls
  double least = 0;             ///< where the loss is least
  std::optional<double> tenth;  ///< a tenth of where training diverged

  /// The one to use: on the shipped recipes a tenth of where training diverged was within 0.3 points of the
  /// best of twelve rates, the other two up to 5 points below (scripts/bench/rates.py). Without divergence a
  /// tenth of where the loss is least.
  double best() const { return tenth.value_or(least / 10); }
};

/// Nothing for a flat curve: one whose loss never falls by more than a fiftieth of its first values, and by
/// more than its noise.
std::optional<RateSuggestions> suggest_rates(const RateCurve& curve);

}  // namespace trainer
