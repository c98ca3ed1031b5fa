// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/fake_quantize.h"

#include <algorithm>
#include <limits>
#include <span>

#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

void copy(const float* x, float* y, int64_t count) {
  if (x != y) std::copy_n(x, count, y);
}

void round_weights(std::span<const float> w, const WeightLevels& levels, float scale, float* y) {
  if (scale == 0) return copy(w.data(), y, static_cast<int64_t>(w.size()));
  for (size_t i = 0; i < w.size(); ++i) y[i] = static_cast<float>(levels.integer_of(w[i], scale)) * scale;
}

std::unique_ptr<Kernel> compile_fake_weights(const OpContext& context, const Choice&, const Slots& slots) {
  const auto& op = static_cast<const FakeQuantizeWeights&>(context.op);
  const Shape& shape = context.inputs[FakeQuantizeWeights::kWeight].shape;
  return kernel([levels = op.levels, begin = op.begin, outputs = shape[0], count = numel(shape),
                 in = slots.inputs[FakeQuantizeWeights::kWeight],
                 step = slots.inputs[FakeQuantizeWeights::kStep],
                 out = slots.outputs[FakeQuantizeWeights::kY]] {
    const auto* w = at<const float>(in);
    auto* y = at<float>(out);
    if (!begin.has_come(step == nullptr ? nullptr : at<const int32_t>(step))) return copy(w, y, count);
    const int64_t each = count / outputs;
    const std::span all(w, static_cast<size_t>(count));
    const float of_all = levels.per_tensor ? levels.scale_of(greatest_magnitude(all)) : 0;
    parallel_rows(outputs, each, [&](int64_t first, int64_t last) {
      for (int64_t o = first; o < last; ++o) {
        const auto some = all.subspan(static_cast<size_t>(o * each), static_cast<size_t>(each));
        round_weights(some, levels, levels.per_tensor ? of_all : levels.scale_of(greatest_magnitude(some)),
                      y + o * each);
      }
    });
  });
}

TRAINER_MULTIVERSION void round_range(const float* x, float* y, int64_t count, LevelRounding rounded) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = rounded(x[i]);
}

TRAINER_MULTIVERSION Extremes extremes_of(const float* x, int64_t count) {
  float low = 0, high = 0;
  int has_nan = 0;
#pragma omp simd reduction(min : low) reduction(max : high) reduction(| : has_nan)
  for (int64_t i = 0; i < count; ++i) {
    const float finite = x[i] - x[i] == 0 ? x[i] : 0;
    has_nan |= x[i] != x[i] ? 1 : 0;
    low = finite < low ? finite : low;
    high = finite > high ? finite : high;
  }
  if (has_nan == 0) return {low, high};
  constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
  return {kUnknown, kUnknown};
}

/// Of all parts, in any order: extremes do not depend on it.
Extremes extremes_in_parallel(const float* x, int64_t count) {
  Extremes all;
  parallel_elements(count, [&](int64_t begin, int64_t end) {
    const Extremes part = extremes_of(x + begin, end - begin);
#pragma omp critical(trainer_extremes)
    all.add(part);
  });
  return all;
}

std::unique_ptr<Kernel> compile_fake_quantize(const OpContext& context, const Choice& choice,
                                              const Slots& slots) {
  const auto& op = static_cast<const FakeQuantize&>(context.op);
  // Padding of a layout is zero, which no range lacks and rounding keeps.
  const int64_t count =
      stored_elements(choice.inputs[FakeQuantize::kX], context.inputs[FakeQuantize::kX].shape);
  return kernel([=, levels = op.levels, moves = op.moves, begin = op.begin,
                 has_fresh = op.moves && context.has_output(FakeQuantize::kFresh), in = slots.inputs,
                 out = slots.outputs] {
    const auto* x = at<const float>(in[FakeQuantize::kX]);
    const auto* range = at<const float>(in[FakeQuantize::kRange]);
    auto* y = at<float>(out[FakeQuantize::kY]);
    Extremes used{range[0], range[1]};
    if (moves) {
      const Extremes seen = extremes_in_parallel(x, count);
      if (has_fresh) {
        auto* fresh = at<float>(out[FakeQuantize::kFresh]);
        fresh[0] = FakeQuantize::fresh_low(used.low, seen.low);
        fresh[1] = FakeQuantize::fresh_high(used.high, seen.high);
      }
      used.add(seen);
    }
    const bool rounds = begin.has_come(
        in[FakeQuantize::kStep] == nullptr ? nullptr : at<const int32_t>(in[FakeQuantize::kStep]));
    if (!rounds) return copy(x, y, count);
    const LevelRounding rounded(levels.of_range(used.low, used.high), levels);
    parallel_elements(count, [=](int64_t first, int64_t last) {
      round_range(x + first, y + first, last - first, rounded);
    });
  });
}

}  // namespace

void add_fake_quantize(Handlers& handlers) {
  handlers[typeid(FakeQuantizeWeights)] = {select_row_major, compile_fake_weights, {}};
  handlers[typeid(FakeQuantize)] = {
      [](const OpContext& context, const OpenLayouts& inputs) { return select_same(context, inputs, true); },
      compile_fake_quantize,
      {}};
}

}  // namespace trainer::cpu
