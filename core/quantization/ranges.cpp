// SPDX-License-Identifier: Apache-2.0
#include "core/quantization/ranges.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace trainer {
namespace {

constexpr double kPercentile = 0.9999;

constexpr std::array<std::pair<RangeMethod, std::string_view>, 3> kMethods = {
    {{RangeMethod::min_max, "min_max"},
     {RangeMethod::percentile, "percentile"},
     {RangeMethod::entropy, "entropy"}}};

bool is_signed(const ValueRange& range) {
  return range.low < 0;
}

/// Counts by magnitude. A symmetric range has its parts in pairs on both sides of zero.
std::vector<double> magnitudes(const ValueCounts& observed) {
  if (!is_signed(observed.range)) return observed.counts;
  const size_t half = observed.counts.size() / 2;
  std::vector<double> counts(half);
  for (size_t i = 0; i < half; ++i) counts[i] = observed.counts[half + i] + observed.counts[half - 1 - i];
  return counts;
}

/// The range up to the end of the first `parts` of the magnitudes.
ValueRange range_up_to(const ValueCounts& observed, size_t parts, size_t all) {
  const double greatest = observed.range.high * static_cast<double>(parts) / static_cast<double>(all);
  return {.low = is_signed(observed.range) ? -greatest : 0, .high = greatest};
}

/// The first `parts` counts, each spread evenly over the parts of its level that have any: what remains of
/// them in bytes.
std::vector<double> in_levels(const std::vector<double>& counts, size_t parts, size_t levels) {
  std::vector<double> spread(parts);
  for (size_t level = 0; level < levels; ++level) {
    const size_t begin = level * parts / levels, end = (level + 1) * parts / levels;
    const auto first = counts.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = counts.begin() + static_cast<std::ptrdiff_t>(end);
    const auto used = static_cast<double>(std::count_if(first, last, [](double count) { return count > 0; }));
    const double mean = used > 0 ? std::accumulate(first, last, 0.0) / used : 0;
    for (size_t i = begin; i < end; ++i) spread[i] = counts[i] > 0 ? mean : 0;
  }
  return spread;
}

/// sum of p * log(p / q) over parts where p > 0, each divided by its sum. Where q is 0 it counts as a small
/// part of a value: clipping values to a part without others costs much, but not everything.
double divergence(const std::vector<double>& p, const std::vector<double>& q) {
  constexpr double kLeastCount = 1e-4;
  const double p_sum = std::accumulate(p.begin(), p.end(), 0.0),
               q_sum = std::max(std::accumulate(q.begin(), q.end(), 0.0), kLeastCount);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] <= 0) continue;
    sum += p[i] / p_sum * std::log(p[i] * q_sum / (std::max(q[i], kLeastCount) * p_sum));
  }
  return sum;
}

}  // namespace

std::string_view to_string(RangeMethod method) {
  return std::ranges::find(kMethods, method, &std::pair<RangeMethod, std::string_view>::first)->second;
}

std::optional<RangeMethod> range_method_named(std::string_view name) {
  for (const auto& [method, text] : kMethods) {
    if (text == name) return method;
  }
  return std::nullopt;
}

std::vector<std::string> range_method_names() {
  std::vector<std::string> names;
  for (const auto& [method, text] : kMethods) names.emplace_back(text);
  return names;
}

ValueRange counted_range(const ValueRange& extremes) {
  if (!is_signed(extremes)) return {.low = 0, .high = std::max(extremes.high, 0.0)};
  const double greatest = std::max(-extremes.low, extremes.high);
  return {.low = -greatest, .high = greatest};
}

ValueRange percentile_range(const ValueCounts& observed, double share) {
  const std::vector<double> counts = magnitudes(observed);
  const double wanted = share * std::accumulate(counts.begin(), counts.end(), 0.0);
  double within = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    within += counts[i];
    if (within >= wanted) return range_up_to(observed, i + 1, counts.size());
  }
  return observed.range;
}

ValueRange entropy_range(const ValueCounts& observed) {
  std::vector<double> counts = magnitudes(observed);
  counts[0] = counts[1];
  const size_t levels = is_signed(observed.range) ? 128 : 256;
  double least = std::numeric_limits<double>::infinity();
  size_t best = counts.size();
  double beyond = std::accumulate(counts.begin() + static_cast<std::ptrdiff_t>(levels), counts.end(), 0.0);
  for (size_t parts = levels; parts <= counts.size(); ++parts) {
    std::vector<double> clipped(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(parts));
    clipped.back() += beyond;
    const double loss = divergence(clipped, in_levels(counts, parts, levels));
    if (loss < least) {
      least = loss;
      best = parts;
    }
    if (parts < counts.size()) beyond -= counts[parts];
  }
  return range_up_to(observed, best, counts.size());
}

ValueRange range_of(RangeMethod method, const ValueRange& extremes, const ValueCounts& observed) {
  switch (method) {
    case RangeMethod::min_max:
      return {.low = std::min(extremes.low, 0.0), .high = std::max(extremes.high, 0.0)};
    case RangeMethod::percentile:
      return percentile_range(observed, kPercentile);
    case RangeMethod::entropy:
      return entropy_range(observed);
  }
  return extremes;
}

}  // namespace trainer
