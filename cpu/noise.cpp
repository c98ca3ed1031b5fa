// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/noise.h"

#include <algorithm>

#include "cpu/drawn_words.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// Where the elements of a channel come from.
struct NoisyPlane {
  uint64_t key;
  int32_t sample, step;
  int64_t first, count;  ///< elements of the sample
  float scale, offset;
};

template <class Rule>
TRAINER_MULTIVERSION void add_noise_to(const Rule& rule, const NoisyPlane& plane, const float* x, float* y) {
  alignas(64) uint32_t words[4][kDrawnBlocks];
  alignas(64) float drawn[kDrawnElements];
  const float scale = plane.scale, offset = plane.offset;
  for (int64_t begin = -(plane.first % 4); begin < plane.count; begin += kDrawnElements) {
    draw_words(plane.key, (plane.first + begin) / 4, plane.sample, plane.step, words);
#pragma omp simd
    for (int64_t l = 0; l < kDrawnBlocks; ++l) {
      const DrawnPair<float> low = rule.template draw<float>(words[0][l], words[1][l]),
                             high = rule.template draw<float>(words[2][l], words[3][l]);
      drawn[4 * l] = low.first, drawn[4 * l + 1] = low.second;
      drawn[4 * l + 2] = high.first, drawn[4 * l + 3] = high.second;
    }
    const int64_t from = std::max<int64_t>(begin, 0), end = std::min(begin + kDrawnElements, plane.count);
#pragma omp simd
    for (int64_t i = from; i < end; ++i) y[i] = rule.apply(x[i], drawn[i - begin], scale, offset);
  }
}

std::unique_ptr<Kernel> compile_noise(const OpContext& context, const Choice&, const Slots& slots) {
  const auto& op = static_cast<const Noise&>(context.op);
  const Shape& shape = context.inputs[Noise::kX].shape;
  const int64_t channels = shape[1], area = shape[2] * shape[3], planes = shape[0] * channels;
  const auto make = [&](const auto& rule) -> std::unique_ptr<Kernel> {
    return kernel([=, key = op.key, in = slots.inputs, out = slots.outputs[Noise::kY]] {
      const int32_t step = in[Noise::kStep] == nullptr ? 0 : *at<const int32_t>(in[Noise::kStep]);
      parallel_rows(planes, area, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
          const int64_t channel = p % channels;
          const NoisyPlane plane{.key = key,
                                 .sample = at<const int32_t>(in[Noise::kSample])[p / channels],
                                 .step = step,
                                 .first = channel * area,
                                 .count = area,
                                 .scale = at<const float>(in[Noise::kScale])[channel],
                                 .offset = at<const float>(in[Noise::kOffset])[channel]};
          add_noise_to(rule, plane, at<const float>(in[Noise::kX]) + p * area, at<float>(out) + p * area);
        }
      });
    });
  };
  return std::visit(make, op.rule);
}

}  // namespace

void add_noise(Handlers& handlers) {
  handlers[typeid(Noise)] = {select_row_major, compile_noise, {}};
}

}  // namespace trainer::cpu
