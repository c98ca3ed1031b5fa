// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/fake_quantize.h"

#include <algorithm>
#include <cmath>

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

bool is_before(const Call& call, size_t step, const FakeQuantizeBegin& begin) {
  return call.has_input(step) && call.in<int32_t>(step)[0] < begin.step;
}

/// As floats: devices decide by these to which level a number between two belongs.
double scale_of(double magnitude, double levels, bool power_of_two) {
  const double scale = magnitude / levels;
  return power_of_two && scale > 0 ? std::exp2(std::ceil(std::log2(scale))) : scale;
}

void fake_quantize_weights(const Call& call) {
  using Op = FakeQuantizeWeights;
  const WeightLevels& levels = call.as<Op>().levels;
  const double limit = std::exp2(static_cast<double>(levels.bits - 1)) - 1;
  const int64_t count = call.count_in(Op::kWeight),
                each = levels.per_tensor ? count : count / call.shape_in(Op::kWeight)[0];
  for (int64_t first = 0; first < count; first += each) {
    const double* w = call.in(Op::kWeight) + first;
    double greatest = 0;
    for (int64_t i = 0; i < each; ++i) {
      if (std::isfinite(w[i]) && std::abs(w[i]) > greatest) greatest = std::abs(w[i]);
      if (std::isnan(w[i])) greatest = w[i];
    }
    const double scale = static_cast<float>(scale_of(greatest, limit, levels.power_of_two));
    const bool rounds = scale != 0 && !is_before(call, Op::kStep, call.as<Op>().begin);
    for (int64_t i = 0; i < each; ++i)
      call.out(Op::kY)[first + i] =
          rounds ? std::clamp(std::nearbyint(w[i] / scale), -limit, limit) * scale : w[i];
  }
}

void fake_quantize(const Call& call) {
  using Op = FakeQuantize;
  const auto& op = call.as<Op>();
  const int64_t count = call.count_in(Op::kX);
  const double *x = call.in(Op::kX), *range = call.in(Op::kRange);
  double low = range[0], high = range[1];
  if (op.moves) {
    double least = 0, greatest = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (std::isnan(x[i])) least = greatest = x[i];
      if (!std::isfinite(x[i])) continue;
      if (x[i] < least) least = x[i];
      if (x[i] > greatest) greatest = x[i];
    }
    if (call.has_output(Op::kFresh)) {
      call.out(Op::kFresh)[0] = least < low ? low + (least - low) / Op::kShare : least + (low - low);
      call.out(Op::kFresh)[1] =
          greatest > high ? high + (greatest - high) / Op::kShare : greatest + (high - high);
    }
    low = std::isnan(least) ? least : std::min(low, least);
    high = std::isnan(greatest) ? greatest : std::max(high, greatest);
  }
  const double levels = std::exp2(static_cast<double>(op.levels.bits)), half = levels / 2;
  const double zero = low < 0 ? half : 0, magnitude = low < 0 ? std::max(high, -low) : high + (low - low);
  const double scale = scale_of(magnitude, low < 0 ? half - 1 : levels - 1, op.levels.power_of_two);
  const bool rounds = !(scale < kLeastScale) && !is_before(call, Op::kStep, op.begin);
  for (int64_t i = 0; i < count; ++i) {
    const double level = static_cast<float>(x[i]) * static_cast<float>(1 / scale) + static_cast<float>(zero);
    call.out(Op::kY)[i] = rounds ? (std::clamp(std::nearbyint(level), 0.0, levels - 1) - zero) * scale : x[i];
  }
}

}  // namespace

void add_fake_quantize(Loops& loops) {
  loops[typeid(FakeQuantizeWeights)] = fake_quantize_weights;
  loops[typeid(FakeQuantize)] = fake_quantize;
}

}  // namespace trainer::reference
