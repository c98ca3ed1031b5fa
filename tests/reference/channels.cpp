// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/channels.h"

#include <algorithm>

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// Calls visit(place in x, sample * C + channel, channel) for every element of x (N, C, H, W).
template <class Visit>
void for_each_element(const Shape& x, Visit visit) {
  const int64_t area = x[2] * x[3];
  for (int64_t i = 0, count = numel(x); i < count; ++i) visit(i, i / area, i / area % x[1]);
}

void scale(const Call& c) {
  for_each_element(c.shape_in(ScaleChannels::kX), [&](int64_t i, int64_t image, int64_t) {
    c.out(ScaleChannels::kY)[i] = c.in(ScaleChannels::kX)[i] * c.in(ScaleChannels::kFactors)[image];
  });
}

void scale_backward(const Call& c) {
  std::fill_n(c.out(ScaleChannelsBackward::kDfactors), c.count_out(ScaleChannelsBackward::kDfactors), 0.0);
  for_each_element(c.shape_in(ScaleChannelsBackward::kDy), [&](int64_t i, int64_t image, int64_t) {
    c.out(ScaleChannelsBackward::kDfactors)[image] +=
        c.in(ScaleChannelsBackward::kDy)[i] * c.in(ScaleChannelsBackward::kX)[i];
  });
}

void add(const Call& c) {
  for_each_element(c.shape_in(AddChannels::kX), [&](int64_t i, int64_t, int64_t channel) {
    c.out(AddChannels::kY)[i] = c.in(AddChannels::kX)[i] + c.in(AddChannels::kBias)[channel];
  });
}

void add_backward(const Call& c) {
  std::fill_n(c.out(AddChannelsBackward::kDbias), c.count_out(AddChannelsBackward::kDbias), 0.0);
  for_each_element(c.shape_in(AddChannelsBackward::kDy), [&](int64_t i, int64_t, int64_t channel) {
    c.out(AddChannelsBackward::kDbias)[channel] += c.in(AddChannelsBackward::kDy)[i];
  });
}

}  // namespace

void add_channels(Loops& loops) {
  loops[typeid(ScaleChannels)] = scale;
  loops[typeid(ScaleChannelsBackward)] = scale_backward;
  loops[typeid(AddChannels)] = add;
  loops[typeid(AddChannelsBackward)] = add_backward;
}

}  // namespace trainer::reference
