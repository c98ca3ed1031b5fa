// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/resample2d.h"

#include <algorithm>
#include <cmath>

namespace trainer {
namespace {

void add_output(Taps& taps) {
  taps.begin.push_back(static_cast<int64_t>(taps.input.size()));
}

void add_tap(Taps& taps, int64_t input, double weight) {
  taps.input.push_back(input);
  taps.weight.push_back(weight);
}

/// Between the two places around `at`; beyond the first and the last place those themselves.
template <class Tap>
void visit_linear(double at, int64_t inputs, const Tap& tap) {
  const auto left = std::min(static_cast<int64_t>(at), inputs - 1);
  const double part = at - static_cast<double>(left);
  const bool between = left + 1 < inputs && part > 0;
  tap(left, between ? 1 - part : 1);
  if (between) tap(left + 1, part);
}

/// Calls tap(input, weight) for each tap of the output `o`.
template <class Tap>
void visit_taps(Resampling how, int64_t inputs, int64_t outputs, int64_t o, const Tap& tap) {
  const auto in = static_cast<double>(inputs), out = static_cast<double>(outputs);
  const auto place = static_cast<double>(o);
  const int64_t first = o * inputs / outputs, end = ((o + 1) * inputs + outputs - 1) / outputs;
  switch (how) {
    case Resampling::nearest:
      return tap(first, 1);
    case Resampling::bilinear:
      return visit_linear(std::max(0.0, (place + 0.5) * in / out - 0.5), inputs, tap);
    case Resampling::bilinear_aligned:
      return visit_linear(outputs > 1 ? place * (in - 1) / (out - 1) : 0, inputs, tap);
    case Resampling::average:
      for (int64_t i = first; i < end; ++i) tap(i, 1 / static_cast<double>(end - first));
  }
}

/// Without a list of them: an image that no memory holds has a number of operations as well.
double count_taps(Resampling how, int64_t inputs, int64_t outputs) {
  int64_t count = 0;
  for (int64_t o = 0; o < outputs; ++o)
    visit_taps(how, inputs, outputs, o, [&](int64_t, double) { ++count; });
  return static_cast<double>(count);
}

/// A product and a sum for each pair of taps.
double resample_flops(Resampling how, const Shape& x, const Shape& y) {
  return 2 * static_cast<double>(x[0] * x[1]) * count_taps(how, x[2], y[2]) * count_taps(how, x[3], y[3]);
}

const char* mode_of(Resampling how) {
  switch (how) {
    case Resampling::nearest:
      return "nearest";
    case Resampling::bilinear:
    case Resampling::bilinear_aligned:
      return "bilinear";
    case Resampling::average:
      return "average";
  }
  return "?";
}

void describe_rule(Resampling how, AttributeVisitor& visit) {
  visit("mode", mode_of(how), {.named = false});
  visit("align_corners", how == Resampling::bilinear_aligned);
}

}  // namespace

Taps Taps::transposed(int64_t inputs) const {
  std::vector<std::vector<std::pair<int64_t, double>>> of_input(static_cast<size_t>(inputs));
  for (size_t o = 0; o + 1 < begin.size(); ++o) {
    for (auto t = static_cast<size_t>(begin[o]); t < static_cast<size_t>(begin[o + 1]); ++t) {
      of_input[static_cast<size_t>(input[t])].emplace_back(static_cast<int64_t>(o), weight[t]);
    }
  }
  Taps back;
  for (const auto& list : of_input) {
    for (const auto& [output, factor] : list) add_tap(back, output, factor);
    add_output(back);
  }
  return back;
}

Taps taps(Resampling how, int64_t inputs, int64_t outputs) {
  Taps all;
  for (int64_t o = 0; o < outputs; ++o) {
    visit_taps(how, inputs, outputs, o, [&](int64_t input, double weight) { add_tap(all, input, weight); });
    add_output(all);
  }
  return all;
}

void Resample2d::describe(AttributeVisitor& visit) const {
  describe_rule(how, visit);
  visit("output", output, {.hidden = true});
}

std::vector<TensorSpec> Resample2d::infer(std::span<const TensorSpec> inputs) const {
  const Shape& x = inputs[kX].shape;
  expect(x.size() == 4, "expected images (N, C, H, W), got " + to_string(x));
  return {{.shape = {x[0], x[1], output[0], output[1]}, .dtype = inputs[kX].dtype}};
}

std::vector<TensorId> Resample2d::gradient(const Backward& backward) const {
  return {backward.build.emit<Resample2dBackward>({backward.dy[kY]}, how, backward.shape(kX))};
}

double Resample2d::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const {
  return resample_flops(how, inputs[kX].shape, outputs[kY].shape);
}

void Resample2dBackward::describe(AttributeVisitor& visit) const {
  describe_rule(how, visit);
  visit("x_shape", x_shape, {.hidden = true});
}

std::vector<TensorSpec> Resample2dBackward::infer(std::span<const TensorSpec> inputs) const {
  return {{.shape = x_shape, .dtype = inputs[kDy].dtype}};
}

double Resample2dBackward::flops(std::span<const TensorSpec> inputs,
                                 std::span<const TensorSpec> outputs) const {
  return resample_flops(how, outputs[kDx].shape, inputs[kDy].shape);
}

}  // namespace trainer
