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
  const int64_t from = call.shape_in(Pad::kX)[axis], to = call.shape_out(Pad::kY)[axis];
  int64_t outer = 1;
  for (size_t d = 0; d < axis; ++d) outer *= call.shape_in(Pad::kX)[d];
  const int64_t inner = call.count_in(Pad::kX) / outer / from;
  std::fill_n(call.out(Pad::kY), call.count_out(Pad::kY), 0.0);
  for (int64_t o = 0; o < outer; ++o) {
    std::copy_n(call.in(Pad::kX) + o * from * inner, from * inner,
                call.out(Pad::kY) + (o * to + op.before) * inner);
  }
}

void transpose(const Call& call) {
  const TransposedSizes e(call.as<Transpose>(), call.shape_in(Transpose::kX));
  for (int64_t i = 0; i < call.count_in(Transpose::kX); ++i) {
    const int64_t inner = i % e.inner, b = i / e.inner % e.b, middle = i / e.inner / e.b % e.middle,
                  a = i / e.inner / e.b / e.middle % e.a, outer = i / e.inner / e.b / e.middle / e.a;
    call.out(Transpose::kY)[(((outer * e.b + b) * e.middle + middle) * e.a + a) * e.inner + inner] =
        call.in(Transpose::kX)[i];
  }
}

void repeat_samples(const Call& call) {
  for (int64_t i = 0; i < call.count_out(RepeatSamples::kY); ++i)
    call.out(RepeatSamples::kY)[i] = call.in(RepeatSamples::kX)[i % call.count_in(RepeatSamples::kX)];
}

void sum_samples(const Call& call) {
  std::fill_n(call.out(SumSamples::kDx), call.count_out(SumSamples::kDx), 0.0);
  for (int64_t i = 0; i < call.count_in(SumSamples::kDy); ++i)
    call.out(SumSamples::kDx)[i % call.count_out(SumSamples::kDx)] += call.in(SumSamples::kDy)[i];
}

void scale_features(const Call& call) {
  for (int64_t i = 0; i < call.count_in(ScaleFeatures::kX); ++i)
    call.out(ScaleFeatures::kY)[i] =
        call.in(ScaleFeatures::kX)[i] *
        call.in(ScaleFeatures::kFactors)[i % call.count_in(ScaleFeatures::kFactors)];
}

void scale_features_backward(const Call& call) {
  std::fill_n(call.out(ScaleFeaturesBackward::kDfactors), call.count_out(ScaleFeaturesBackward::kDfactors),
              0.0);
  for (int64_t i = 0; i < call.count_in(ScaleFeaturesBackward::kDy); ++i)
    call.out(ScaleFeaturesBackward::kDfactors)[i % call.count_out(ScaleFeaturesBackward::kDfactors)] +=
        call.in(ScaleFeaturesBackward::kDy)[i] * call.in(ScaleFeaturesBackward::kX)[i];
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
