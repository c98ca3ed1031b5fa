// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/rearrange.h"

#include <algorithm>

#include "core/graph/ops/scale_features.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

void pad(const Call& call) {
  const auto& op = call.as<Pad>();
  const auto axis = static_cast<size_t>(op.axis);
  const int64_t from = call.shape_in(0)[axis], to = call.shape_out(0)[axis];
  int64_t outer = 1;
  for (size_t d = 0; d < axis; ++d) outer *= call.shape_in(0)[d];
  const int64_t inner = call.count_in(0) / outer / from;
  std::fill_n(call.out(0), call.count_out(0), 0.0);
  for (int64_t o = 0; o < outer; ++o) {
    std::copy_n(call.in(0) + o * from * inner, from * inner, call.out(0) + (o * to + op.before) * inner);
  }
}

void transpose(const Call& call) {
  const TransposedExtents e(call.as<Transpose>(), call.shape_in(0));
  for (int64_t i = 0; i < call.count_in(0); ++i) {
    const int64_t inner = i % e.inner, b = i / e.inner % e.b, middle = i / e.inner / e.b % e.middle,
                  a = i / e.inner / e.b / e.middle % e.a, outer = i / e.inner / e.b / e.middle / e.a;
    call.out(0)[(((outer * e.b + b) * e.middle + middle) * e.a + a) * e.inner + inner] = call.in(0)[i];
  }
}

void repeat_samples(const Call& call) {
  for (int64_t i = 0; i < call.count_out(0); ++i) call.out(0)[i] = call.in(0)[i % call.count_in(0)];
}

void sum_samples(const Call& call) {
  std::fill_n(call.out(0), call.count_out(0), 0.0);
  for (int64_t i = 0; i < call.count_in(0); ++i) call.out(0)[i % call.count_out(0)] += call.in(0)[i];
}

void scale_features(const Call& call) {
  for (int64_t i = 0; i < call.count_in(0); ++i)
    call.out(0)[i] = call.in(0)[i] * call.in(1)[i % call.count_in(1)];
}

void scale_features_backward(const Call& call) {
  std::fill_n(call.out(0), call.count_out(0), 0.0);
  for (int64_t i = 0; i < call.count_in(0); ++i)
    call.out(0)[i % call.count_out(0)] += call.in(0)[i] * call.in(1)[i];
}

}  // namespace

void add_rearrange(Loops& loops) {
  loops[typeid(Pad)] = pad;
  loops[typeid(Transpose)] = transpose;
  loops[typeid(RepeatSamples)] = repeat_samples;
  loops[typeid(SumSamples)] = sum_samples;
  loops[typeid(ScaleFeatures)] = scale_features;
  loops[typeid(ScaleFeaturesBackward)] = scale_features_backward;
}

}  // namespace trainer::reference
