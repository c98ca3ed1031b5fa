// SPDX-License-Identifier: Apache-2.0
#include "core/search/kernels.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/search/draws.h"
#include "core/search/normal.h"

namespace trainer {
namespace {

/// In deviations. A kernel that is farther from a value has no part in the mixture's density there, because
/// of the prior's: exp(-0.5 * kFar^2) is 1e-87.
constexpr double kFar = 20;

std::vector<size_t> rising_order(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  return order;
}

/// Bergstra et al., "Algorithms for hyper-parameter optimization", NeurIPS 2011: the larger distance to a
/// neighbour, where the bounds are neighbours too. Watanabe, "Tree-structured Parzen estimator",
/// arXiv:2304.11127: of several, the first and the last do not count the distance to a bound, and none is
/// narrower than 1 / min(100, n + 2) of the range ("magic clip").
std::vector<double> bandwidths(const std::vector<double>& means, const std::vector<size_t>& rising,
                               double low, double high) {
  const size_t n = means.size();
  const double range = high - low, least = range / std::min(100.0, static_cast<double>(n) + 2);
  std::vector<double> widths(n);
  for (size_t i = 0; i < n; ++i) {
    const double mean = means[rising[i]];
    const double before = mean - (i > 0 ? means[rising[i - 1]] : low);
    const double after = (i + 1 < n ? means[rising[i + 1]] : high) - mean;
    double width = std::max(before, after);
    if (n > 1 && i == 0) width = after;
    if (n > 1 && i == n - 1) width = before;
    widths[rising[i]] = std::clamp(width, least, range);
  }
  return widths;
}

/// The logarithm of a kernel's mass in an interval; if that is far, a bound, which takes a tenth of the time.
double log_kernel_mass(double mean, double deviation, double left, double right) {
  const double a = (left - mean) / deviation, b = (right - mean) / deviation, nearest = std::max(a, -b);
  return nearest > kFar ? -0.5 * nearest * nearest : log_normal_mass(a, b);
}

}  // namespace

Kernels::Kernels(const Dimension& dimension, const std::vector<double>& observed)
    : kind_(dimension.kind),
      logarithmic_(dimension.logarithmic),
      lowest_(dimension.low),
      highest_(dimension.high) {
  if (kind_ == Dimension::Kind::choice) {
    // One added count, shared by the kernels.
    const double share = 1 / (static_cast<double>(observed.size()) + 1);
    choices_ = static_cast<double>(dimension.choices);
    log_hit_ = std::log((1 + share) / (1 + choices_ * share));
    log_miss_ = std::log(share / (1 + choices_ * share));
    chosen_ = observed;
    return;
  }
  const auto place = [this](double value) { return logarithmic_ ? std::log(value) : value; };
  const double half = kind_ == Dimension::Kind::integer ? 0.5 : 0;
  low_ = place(lowest_ - half);
  high_ = place(highest_ + half);
  for (const double value : observed) mean_.push_back(place(value));
  deviation_ = bandwidths(mean_, rising_order(mean_), low_, high_);
  mean_.push_back(0.5 * (low_ + high_));
  deviation_.push_back(high_ - low_);
  rising_ = rising_order(mean_);
  for (size_t i = 0; i < mean_.size(); ++i) {
    const double s = deviation_[i], mass = log_normal_mass((low_ - mean_[i]) / s, (high_ - mean_[i]) / s);
    offset_.push_back(kind_ == Dimension::Kind::real ? -kLogSqrtTwoPi - std::log(s) - mass : -mass);
  }
}

void Kernels::add_log_densities(double value, std::span<double> sums) const {
  if (kind_ == Dimension::Kind::choice) {
    add_choice(value, sums);
  } else if (kind_ == Dimension::Kind::integer) {
    add_integer(value, sums);
  } else {
    add_real(logarithmic_ ? std::log(value) : value, sums);
  }
}

void Kernels::add_real(double x, std::span<double> sums) const {
  for (size_t i = 0; i < mean_.size(); ++i) {
    const double z = (x - mean_[i]) / deviation_[i];
    sums[i] += offset_[i] - 0.5 * z * z;
  }
}

/// Many kernels are alike: integers repeat, and most bandwidths are the least one. Those of equal means are
/// neighbours in rising order.
void Kernels::add_integer(double value, std::span<double> sums) const {
  const double left = logarithmic_ ? std::log(value - 0.5) : value - 0.5;
  const double right = logarithmic_ ? std::log(value + 0.5) : value + 0.5;
  double mean = 0, deviation = 0, mass = 0;
  for (const size_t i : rising_) {
    if (mean_[i] != mean || deviation_[i] != deviation) {
      mean = mean_[i];
      deviation = deviation_[i];
      mass = log_kernel_mass(mean, deviation, left, right);
    }
    sums[i] += offset_[i] + mass;
  }
}

void Kernels::add_choice(double value, std::span<double> sums) const {
  for (size_t i = 0; i < chosen_.size(); ++i) sums[i] += chosen_[i] == value ? log_hit_ : log_miss_;
  sums[chosen_.size()] -= std::log(choices_);
}

double Kernels::draw(size_t kernel, RandomStream& stream) const {
  if (kind_ == Dimension::Kind::choice) {
    double u = next_uniform53(stream);
    if (kernel == chosen_.size()) return std::floor(u * choices_);
    const double hit = std::exp(log_hit_);
    if (u < hit || choices_ == 1) return chosen_[kernel];
    u = std::min((u - hit) / (1 - hit), 1 - 0x1p-53);
    const double other = std::floor(u * (choices_ - 1));
    return other < chosen_[kernel] ? other : other + 1;
  }
  double value = next_truncated_normal(stream, mean_[kernel], deviation_[kernel], low_, high_);
  if (logarithmic_) value = std::exp(value);
  if (kind_ == Dimension::Kind::integer) value = std::round(value);
  return std::clamp(value, lowest_, highest_);
}

}  // namespace trainer
