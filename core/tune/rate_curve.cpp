// SPDX-License-Identifier: Apache-2.0
#include "core/tune/rate_curve.h"

#include <algorithm>
#include <cmath>

namespace trainer {
namespace {

/// Of the average before, in the next one: about ten losses count.
constexpr double kDecay = 0.9;
/// Smith (2017) stops "when the loss explodes"; four times is the customary reading of that.
constexpr double kExplosion = 4;
constexpr double kLeastFall = 0.02;
/// The average has as many losses as it will have.
constexpr int64_t kSettled = 15;
/// The first averages are of few losses: their slopes are noise.
constexpr size_t kFirstSlope = 5;
/// A loss that wanders within so many deviations has not fallen: it has some twenty chances to be low.
constexpr double kDeviations = 4;

/// The slope at step i, over two steps on either side.
double slope_at(const RateCurve& curve, size_t i) {
  return (curve.losses[i + 2] - curve.losses[i - 2]) / std::log(curve.rates[i + 2] / curve.rates[i - 2]);
}

double steepest_rate(const RateCurve& curve) {
  size_t steepest = kFirstSlope;
  for (size_t i = kFirstSlope; i + 2 < curve.losses.size(); ++i) {
    if (slope_at(curve, i) < slope_at(curve, steepest)) steepest = i;
  }
  return curve.rates[steepest];
}

/// The longest subsequence of falling losses, as steps from its first to its last, found for each last step
/// from those before it.
double valley_rate(const RateCurve& curve) {
  const std::vector<double>& losses = curve.losses;
  std::vector<size_t> length(losses.size(), 1), first(losses.size());
  for (size_t last = 0; last < losses.size(); ++last) {
    first[last] = last;
    for (size_t i = 0; i < last; ++i) {
      if (losses[i] <= losses[last] || length[i] < length[last]) continue;
      length[last] = length[i] + 1;
      first[last] = first[i];
    }
  }
  const auto end = static_cast<size_t>(std::ranges::max_element(length) - length.begin());
  return curve.rates[first[end] + (end - first[end]) * 2 / 3];
}

/// From the differences of successive losses in the first quarter of the steps, where rates change little.
double noise_of(const std::vector<double>& losses) {
  const size_t count = losses.size() / 4;
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += (losses[i + 1] - losses[i]) * (losses[i + 1] - losses[i]) / 2;
  const double variance = count == 0 ? 0 : sum / static_cast<double>(count);
  return std::sqrt(variance * (1 - kDecay) / (1 + kDecay));
}

}  // namespace

std::vector<float> rising_rates(double from, double to, int64_t steps) {
  std::vector<float> rates;
  const double growth = std::log(to / from) / static_cast<double>(steps - 1);
  for (int64_t i = 0; i < steps; ++i)
    rates.push_back(static_cast<float>(from * std::exp(growth * static_cast<double>(i))));
  return rates;
}

void LossAverage::add(double loss) {
  sum_ = kDecay * sum_ + (1 - kDecay) * loss;
  weight_ *= kDecay;
  average_ = sum_ / (1 - weight_);
  if (std::isfinite(average_)) least_ = std::min(average_, least_.value_or(average_));
}

/// A loss may be negative: then by as much above its least value.
bool LossAverage::has_diverged() const {
  if (!std::isfinite(average_)) return true;
  return least_ && average_ > *least_ + (kExplosion - 1) * std::abs(*least_);
}

RateCurve rate_curve(std::span<const float> rates, const std::vector<std::vector<double>>& losses) {
  size_t common = rates.size();
  RateCurve curve;
  std::vector<std::vector<double>> averages;
  for (const std::vector<double>& each : losses) {
    curve.noise += noise_of(each) / std::pow(static_cast<double>(losses.size()), 1.5);
    LossAverage average;
    averages.emplace_back();
    for (const double loss : each) {
      average.add(loss);
      if (average.has_diverged()) {
        const double rate = rates[averages.back().size()];
        curve.diverged_at = std::min(rate, curve.diverged_at.value_or(rate));
        break;
      }
      averages.back().push_back(average.value());
    }
    common = std::min(common, averages.back().size());
  }
  for (size_t i = 0; i < common; ++i) {
    double sum = 0;
    for (const std::vector<double>& each : averages) sum += each[i];
    curve.rates.push_back(rates[i]);
    curve.losses.push_back(sum / static_cast<double>(losses.size()));
  }
  return curve;
}

std::optional<RateSuggestions> suggest_rates(const RateCurve& curve) {
  if (curve.losses.size() < kFirstSlope + 3) return std::nullopt;
  const auto settled = curve.losses.begin() + std::min<int64_t>(kSettled, std::ssize(curve.losses) - 1);
  const auto lowest = std::min_element(settled, curve.losses.end());
  const double first = *settled, fall = first - *lowest;
  if (fall <= std::max(kLeastFall * std::abs(first), kDeviations * curve.noise)) return std::nullopt;
  RateSuggestions suggestions{.steepest = steepest_rate(curve), .valley = valley_rate(curve)};
  suggestions.least = curve.rates[static_cast<size_t>(lowest - curve.losses.begin())];
  if (curve.diverged_at) suggestions.tenth = *curve.diverged_at / 10;
  return suggestions;
}

}  // namespace trainer
