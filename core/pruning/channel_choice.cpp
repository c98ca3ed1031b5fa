// SPDX-License-Identifier: Apache-2.0
#include "core/pruning/channel_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/pruning/cut_tensors.h"

namespace trainer {
namespace {

/// The sum of absolute values at each position along a dimension.
std::vector<double> sums_along(const std::vector<float>& values, const Shape& shape, size_t dimension) {
  const AlongDimension along(shape, dimension);
  std::vector<double> sums(static_cast<size_t>(along.size));
  for (size_t i = 0; i < values.size(); ++i)
    sums[along.position(i)] += std::abs(static_cast<double>(values[i]));
  return sums;
}

/// Each channel's sum over its positions in one parameter.
std::vector<double> sums_of(const Program& program, const CoupledChannels& channels,
                            const ChannelGroup& group, const ChannelAxis& axis, const TensorValues& values) {
  const Tensor& tensor = program.tensor(axis.tensor);
  const std::vector<double> sums = sums_along(values(tensor), tensor.spec.shape, axis.dimension);
  const std::vector<size_t>& of = channels.of[static_cast<size_t>(axis.tensor)][axis.dimension];
  std::vector<double> found(group.channels.size());
  for (size_t position = 0; position < of.size(); ++position) {
    const auto place = std::ranges::lower_bound(group.channels, of[position]);
    if (place != group.channels.end() && *place == of[position])
      found[static_cast<size_t>(place - group.channels.begin())] += sums[position];
  }
  return found;
}

}  // namespace

size_t kept_count(size_t channels, int64_t width, const KeptShare& kept) {
  const auto step = static_cast<size_t>(kept.multiple / std::gcd(kept.multiple, width));
  // A share such as 0.3 is not exact in binary, and 0.3 * 10 must not become 4.
  const double wanted = std::ceil(kept.share * static_cast<double>(channels) - 1e-9);
  const size_t steps = (static_cast<size_t>(wanted) + step - 1) / step;
  return std::min(channels, std::max<size_t>(1, steps) * step);
}

std::vector<double> importances(const Program& program, const CoupledChannels& channels,
                                const ChannelGroup& group, Importance by, const TensorValues& values) {
  std::vector<double> all(group.channels.size());
  for (const ChannelAxis& axis : group.axes) {
    if (axis.use != (by == Importance::l1 ? ChannelUse::makes : ChannelUse::scales)) continue;
    const std::vector<double> sums = sums_of(program, channels, group, axis, values);
    const double mean = std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(sums.size());
    if (mean == 0) continue;
    for (size_t i = 0; i < all.size(); ++i) all[i] += by == Importance::l1 ? sums[i] / mean : sums[i];
  }
  return all;
}

std::vector<size_t> least(std::span<const double> values, size_t kept) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return values[a] > values[b]; });
  std::vector<size_t> found(order.begin() + static_cast<std::ptrdiff_t>(kept), order.end());
  std::ranges::sort(found);
  return found;
}

bool has_use(const ChannelGroup& group, ChannelUse use) {
  return std::ranges::any_of(group.axes, [&](const ChannelAxis& axis) { return axis.use == use; });
}

}  // namespace trainer
