// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/linear.h"

#include <algorithm>

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// x (N, K), w (O, K) or transposed, y (N, O), N counting all rows.
struct Extents {
  int64_t samples, features, outputs;
  bool transposed;
  Extents(const Shape& x, const Shape& y, bool turned)
      : samples(numel(x) / x.back()), features(x.back()), outputs(y.back()), transposed(turned) {}
  int64_t weight(int64_t o, int64_t k) const { return transposed ? k * outputs + o : o * features + k; }
};

void linear_forward(const Call& call) {
  const Extents e(call.shape_in(0), call.shape_out(0), call.as<Linear>().transposed);
  for (int64_t n = 0; n < e.samples; ++n) {
    for (int64_t o = 0; o < e.outputs; ++o) {
      double sum = call.has_input(2) ? call.in(2)[o] : 0;
      for (int64_t k = 0; k < e.features; ++k)
        sum += call.in(0)[n * e.features + k] * call.in(1)[e.weight(o, k)];
      call.out(0)[n * e.outputs + o] = call.as<Linear>().relu ? std::max(sum, 0.0) : sum;
    }
  }
}

void linear_backward_data(const Call& call) {
  const Extents e(call.shape_out(0), call.shape_in(0), call.as<LinearBackwardData>().transposed);
  for (int64_t n = 0; n < e.samples; ++n) {
    for (int64_t k = 0; k < e.features; ++k) {
      double sum = 0;
      for (int64_t o = 0; o < e.outputs; ++o)
        sum += call.in(0)[n * e.outputs + o] * call.in(1)[e.weight(o, k)];
      call.out(0)[n * e.features + k] = sum;
    }
  }
}

void linear_backward_weights(const Call& call) {
  const Extents e(call.shape_in(0), call.shape_in(1), call.as<LinearBackwardWeights>().transposed);
  for (int64_t o = 0; o < e.outputs; ++o) {
    for (int64_t k = 0; k < e.features; ++k) {
      double sum = 0;
      for (int64_t n = 0; n < e.samples; ++n)
        sum += call.in(1)[n * e.outputs + o] * call.in(0)[n * e.features + k];
      call.out(0)[e.weight(o, k)] = sum;
    }
    if (!call.has_output(1)) continue;
    double sum = 0;
    for (int64_t n = 0; n < e.samples; ++n) sum += call.in(1)[n * e.outputs + o];
    call.out(1)[o] = sum;
  }
}

}  // namespace

void add_linear(Loops& loops) {
  loops[typeid(Linear)] = linear_forward;
  loops[typeid(LinearBackwardData)] = linear_backward_data;
  loops[typeid(LinearBackwardWeights)] = linear_backward_weights;
}

}  // namespace trainer::reference
