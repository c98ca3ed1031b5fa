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
  for_each_element(c.shape_in(0),
                   [&](int64_t i, int64_t picture, int64_t) { c.out(0)[i] = c.in(0)[i] * c.in(1)[picture]; });
}

void scale_backward(const Call& c) {
  std::fill_n(c.out(0), c.count_out(0), 0.0);
  for_each_element(c.shape_in(0), [&](int64_t i, int64_t picture, int64_t) {
    c.out(0)[picture] += c.in(0)[i] * c.in(1)[i];
  });
}

void add(const Call& c) {
  for_each_element(c.shape_in(0),
                   [&](int64_t i, int64_t, int64_t channel) { c.out(0)[i] = c.in(0)[i] + c.in(1)[channel]; });
}

void add_backward(const Call& c) {
  std::fill_n(c.out(0), c.count_out(0), 0.0);
  for_each_element(c.shape_in(0),
                   [&](int64_t i, int64_t, int64_t channel) { c.out(0)[channel] += c.in(0)[i]; });
}

}  // namespace

void add_channels(Loops& loops) {
  loops[typeid(ScaleChannels)] = scale;
  loops[typeid(ScaleChannelsBackward)] = scale_backward;
  loops[typeid(AddChannels)] = add;
  loops[typeid(AddChannelsBackward)] = add_backward;
}

}  // namespace trainer::reference
