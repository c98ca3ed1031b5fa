// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/linear.h"

#include <algorithm>
#include <cmath>

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// x (N, K), w (O, K) or transposed, y (N, O), N counting all rows.
struct Sizes {
  int64_t samples, features, outputs;
  bool transposed;
  Sizes(const Shape& x, const Shape& y, bool turned)
      : samples(numel(x) / x.back()), features(x.back()), outputs(y.back()), transposed(turned) {}
  int64_t weight(int64_t o, int64_t k) const { return transposed ? k * outputs + o : o * features + k; }
};

struct ValueAndSlope {
  double value, slope;
};

/// x * (1 + tanh(z)) / 2 with z = sqrt(2 / pi) * (x + 0.044715 * x^3); a formula of its own, by the logistic
/// function of 2 z.
ValueAndSlope gelu_tanh(double x) {
  constexpr double kScale = 1.5957691216057308;
  const double share = 1 / (1 + std::exp(-kScale * (x + 0.044715 * x * x * x)));
  return {x * share, share + x * share * (1 - share) * kScale * (1 + 3 * 0.044715 * x * x)};
}

double after(LinearFunction function, double sum) {
  switch (function) {
    case LinearFunction::none:
      break;
    case LinearFunction::relu:
      return std::max(sum, 0.0);
    case LinearFunction::relu_with_mask:
      return sum > 0 ? sum : 0;  // as cuBLASLt, of NaN too
    case LinearFunction::gelu_tanh:
      return gelu_tanh(sum).value;
  }
  return sum;
}

void linear_forward(const Call& call) {
  const Sizes e(call.shape_in(Linear::kX), call.shape_out(Linear::kY), call.as<Linear>().transposed);
  for (int64_t n = 0; n < e.samples; ++n) {
    for (int64_t o = 0; o < e.outputs; ++o) {
      double sum = call.has_input(Linear::kBias) ? call.in(Linear::kBias)[o] : 0;
      for (int64_t k = 0; k < e.features; ++k)
        sum += call.in(Linear::kX)[n * e.features + k] * call.in(Linear::kWeight)[e.weight(o, k)];
      const auto& op = call.as<Linear>();
      const int64_t at = n * e.outputs + o;
      if (call.has_input(Linear::kAdded)) sum += call.in(Linear::kAdded)[at];
      if (op.function == LinearFunction::gelu_tanh && call.has_output(Linear::kKept))
        call.out(Linear::kKept)[at] = sum;
      if (op.function == LinearFunction::relu_with_mask && call.has_output(Linear::kKept))
        call.out<uint8_t>(Linear::kKept)[at] = sum > 0;
      call.out(Linear::kY)[at] = after(op.function, sum);
    }
  }
}

void linear_backward_data(const Call& call) {
  const Sizes e(call.shape_out(LinearBackwardData::kDx), call.shape_in(LinearBackwardData::kDy),
                call.as<LinearBackwardData>().transposed);
  for (int64_t n = 0; n < e.samples; ++n) {
    for (int64_t k = 0; k < e.features; ++k) {
      double sum = 0;
      for (int64_t o = 0; o < e.outputs; ++o)
        sum += call.in(LinearBackwardData::kDy)[n * e.outputs + o] *
               call.in(LinearBackwardData::kWeight)[e.weight(o, k)];
      const int64_t at = n * e.features + k;
      const auto& op = call.as<LinearBackwardData>();
      if (call.has_input(op.kAdded)) sum += op.factor * call.in(op.kAdded)[at];
      if (op.gelu_tanh) {
        sum *= gelu_tanh(call.in(op.kKept)[at]).slope;
      } else if (call.has_input(op.kKept)) {
        sum = call.in<uint8_t>(op.kKept)[at] == 0 ? 0 : sum;
      }
      call.out(LinearBackwardData::kDx)[at] = sum;
    }
  }
}

void linear_backward_weights(const Call& call) {
  const Sizes e(call.shape_in(LinearBackwardWeights::kX), call.shape_in(LinearBackwardWeights::kDy),
                call.as<LinearBackwardWeights>().transposed);
  for (int64_t o = 0; o < e.outputs; ++o) {
    for (int64_t k = 0; k < e.features; ++k) {
      double sum = 0;
      for (int64_t n = 0; n < e.samples; ++n)
        sum += call.in(LinearBackwardWeights::kDy)[n * e.outputs + o] *
               call.in(LinearBackwardWeights::kX)[n * e.features + k];
      const bool adds = call.has_input(LinearBackwardWeights::kAdded);
      const int64_t at = e.weight(o, k);
      call.out(LinearBackwardWeights::kDweight)[at] =
          sum + (adds ? call.in(LinearBackwardWeights::kAdded)[at] : 0);
    }
    if (!call.has_output(LinearBackwardWeights::kDbias)) continue;
    double sum = 0;
    for (int64_t n = 0; n < e.samples; ++n) sum += call.in(LinearBackwardWeights::kDy)[n * e.outputs + o];
    call.out(LinearBackwardWeights::kDbias)[o] = sum;
  }
}

}  // namespace

void add_linear(Loops& loops) {
  loops[typeid(Linear)] = linear_forward;
  loops[typeid(LinearBackwardData)] = linear_backward_data;
  loops[typeid(LinearBackwardWeights)] = linear_backward_weights;
}

}  // namespace trainer::reference
