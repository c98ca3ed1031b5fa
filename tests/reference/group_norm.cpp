// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/group_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// A group of a sample is in one row.
struct GroupSizes {
  int64_t area, channels, groups, rows, width;
  GroupSizes(const Shape& x, int64_t number_of_groups)
      : area(x[2] * x[3]),
        channels(x[1]),
        groups(number_of_groups),
        rows(x[0] * groups),
        width(x[1] / groups * area) {}
  int64_t channel(int64_t row, int64_t i) const { return row % groups * (channels / groups) + i / area; }
};

void group_norm(const Call& call) {
  const auto& op = call.as<GroupNorm>();
  const GroupSizes e(call.shape_in(GroupNorm::kX), op.groups);
  for (int64_t row = 0; row < e.rows; ++row) {
    const double* x = call.in(GroupNorm::kX) + row * e.width;
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < e.width; ++i) mean += x[i] / static_cast<double>(e.width);
    for (int64_t i = 0; i < e.width; ++i) squares += std::pow(x[i] - mean, 2);
    const double factor = 1 / std::sqrt(squares / static_cast<double>(e.width) + op.eps);
    if (call.has_output(GroupNorm::kMean)) call.out(GroupNorm::kMean)[row] = mean;
    if (call.has_output(GroupNorm::kFactor)) call.out(GroupNorm::kFactor)[row] = factor;
    for (int64_t i = 0; i < e.width; ++i) {
      const int64_t c = e.channel(row, i);
      call.out(GroupNorm::kY)[row * e.width + i] =
          (call.has_input(GroupNorm::kGamma) ? call.in(GroupNorm::kGamma)[c] : 1) * (x[i] - mean) * factor +
          (call.has_input(GroupNorm::kBeta) ? call.in(GroupNorm::kBeta)[c] : 0);
    }
  }
}

/// With h = (x - mean) * factor and g = gamma * dy: dx = factor * (g - mean of
/// g - h * mean of g h).
void group_norm_backward(const Call& call) {
  const GroupSizes e(call.shape_in(GroupNormBackward::kX), call.as<GroupNormBackward>().groups);
  std::vector<double> dgamma(static_cast<size_t>(e.channels)), dbeta(static_cast<size_t>(e.channels));
  for (int64_t row = 0; row < e.rows; ++row) {
    const double *dy = call.in(GroupNormBackward::kDy) + row * e.width,
                 *x = call.in(GroupNormBackward::kX) + row * e.width;
    const double mean = call.in(GroupNormBackward::kMean)[row],
                 factor = call.in(GroupNormBackward::kFactor)[row];
    auto slope = [&](int64_t i) {
      return dy[i] * (call.has_input(GroupNormBackward::kGamma)
                          ? call.in(GroupNormBackward::kGamma)[e.channel(row, i)]
                          : 1);
    };
    double slopes = 0, products = 0;
    for (int64_t i = 0; i < e.width; ++i) {
      const double normal = (x[i] - mean) * factor;
      slopes += slope(i) / static_cast<double>(e.width);
      products += slope(i) * normal / static_cast<double>(e.width);
      dgamma[static_cast<size_t>(e.channel(row, i))] += dy[i] * normal;
      dbeta[static_cast<size_t>(e.channel(row, i))] += dy[i];
    }
    for (int64_t i = 0; i < e.width; ++i)
      call.out(GroupNormBackward::kDx)[row * e.width + i] =
          factor * (slope(i) - slopes - (x[i] - mean) * factor * products);
  }
  if (call.has_output(GroupNormBackward::kDgamma))
    std::copy(dgamma.begin(), dgamma.end(), call.out(GroupNormBackward::kDgamma));
  if (call.has_output(GroupNormBackward::kDbeta))
    std::copy(dbeta.begin(), dbeta.end(), call.out(GroupNormBackward::kDbeta));
}

}  // namespace

void add_group_norm(Loops& loops) {
  loops[typeid(GroupNorm)] = group_norm;
  loops[typeid(GroupNormBackward)] = group_norm_backward;
}

}  // namespace trainer::reference
