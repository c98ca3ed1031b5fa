// SPDX-License-Identifier: Apache-2.0
#include "core/search/value_density.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "core/search/normal.h"

namespace trainer {
namespace {

using Histogram = std::vector<double>;

constexpr double kMaxCells = 50;

double cells_of(const Dimension& dimension) {
  if (dimension.kind == Dimension::Kind::choice) return static_cast<double>(dimension.choices);
  if (dimension.kind == Dimension::Kind::real) return kMaxCells;
  const double values = dimension.high - dimension.low + 1;
  return std::min(kMaxCells,
                  dimension.logarithmic ? std::ceil(std::log(values) / std::log(2.0)) + 1 : values);
}

/// How many values are next to each of equally distant points from bound to bound. A value in the middle
/// between two counts for the lower one.
Histogram histogram(const Dimension& dimension, const std::vector<double>& values) {
  const double cells = cells_of(dimension);
  const auto position = [&](double x) { return dimension.logarithmic ? std::log(x) : x; };
  const bool is_choice = dimension.kind == Dimension::Kind::choice;
  const double low = is_choice ? 0 : position(dimension.low);
  const double step = is_choice ? 1 : (position(dimension.high) - low) / (cells - 1);
  Histogram counts(static_cast<size_t>(cells));
  for (const double value : values) {
    const double cell = std::ceil((position(value) - low) / step - 0.5);
    ++counts[static_cast<size_t>(std::clamp(cell, 0.0, cells - 1))];
  }
  return counts;
}

/// Scott's rule ("Multivariate density estimation", 1992) with a robust deviation, from the histogram's cells
/// as values. At least so wide that 90 % of a kernel are in one cell.
double scott_bandwidth(const Histogram& counts) {
  double sum = 0, mean = 0, variance = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    sum += counts[i];
    mean += counts[i] * static_cast<double>(i);
  }
  mean /= sum;
  // The first cells up to which the sum reaches a quarter, and exceeds three quarters.
  double up_to = 0, lower = -1, upper = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto cell = static_cast<double>(i);
    if (counts[i] == 0) continue;
    variance += counts[i] * (cell - mean) * (cell - mean);
    up_to += counts[i];
    if (lower < 0 && up_to >= std::floor(sum / 4)) lower = cell;
    if (up_to - counts[i] <= std::floor(3 * sum / 4)) upper = cell;
  }
  const double deviation = std::sqrt(variance / std::max(1.0, sum - 1));
  return std::max(1.059 * std::min((upper - lower) / 1.34, deviation) * std::pow(sum, -0.2), 0.5 / 1.64);
}

/// The normal distribution of this mean and deviation, rounded to one of the cells.
Histogram rounded_normal(double mean, double deviation, size_t cells) {
  const auto mass = [&](double from, double to) {
    return log_normal_mass((from - mean) / deviation, (to - mean) / deviation);
  };
  const double whole = mass(-0.5, static_cast<double>(cells) - 0.5);
  Histogram shares(cells);
  for (size_t i = 0; i < cells; ++i) {
    const auto cell = static_cast<double>(i);
    shares[i] = std::exp(mass(cell - 0.5, cell + 0.5) - whole);
  }
  return shares;
}

/// One observed choice, smoothed by one count that all kernels share.
Histogram smoothed_choice(size_t chosen, size_t choices, double kernels) {
  Histogram shares(choices, 1 / kernels);
  shares[chosen] += 1;
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace

/// A kernel for each cell that is not empty, and the prior with weight 1.
std::vector<double> density_of_values(const Dimension& dimension, const std::vector<double>& values) {
  const Histogram counts = histogram(dimension, values);
  const size_t cells = counts.size();
  const bool is_choice = dimension.kind == Dimension::Kind::choice;
  const double bandwidth = is_choice ? 0 : scott_bandwidth(counts), n = static_cast<double>(cells);
  const auto kernels = static_cast<double>(1 + cells) - static_cast<double>(std::ranges::count(counts, 0.0));
  const double sum = 1 + std::accumulate(counts.begin(), counts.end(), 0.0);
  Histogram shares = is_choice ? Histogram(cells, 1 / n) : rounded_normal((n - 1) / 2, n, cells);
  for (size_t i = 0; i < cells; ++i) {
    if (counts[i] == 0) continue;
    const Histogram kernel = is_choice ? smoothed_choice(i, cells, kernels)
                                       : rounded_normal(static_cast<double>(i), bandwidth, cells);
    for (size_t k = 0; k < cells; ++k) shares[k] += counts[i] * kernel[k];
  }
  for (double& share : shares) share = share / sum + 1e-12;  // never 0
  return shares;
}

}  // namespace trainer
