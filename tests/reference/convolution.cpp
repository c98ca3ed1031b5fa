// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/graph/ops/conv2d.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// Calls visit(place in x, in w, in y) for every product that a convolution sums up; x (N, C, H, W),
/// w (O, C / groups, kh, kw), y (N, O, H', W').
template <class Visit>
void for_each_product(const Conv2dGeometry& g, const Shape& x, const Shape& w, const Shape& y, Visit visit) {
  const int64_t group_outputs = w[0] / g.groups;
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t o = 0; o < y[1]; ++o) {
      for (int64_t c = 0; c < w[1]; ++c) {
        const int64_t channel = o / group_outputs * w[1] + c;
        for (int64_t row = 0; row < y[2]; ++row) {
          for (int64_t column = 0; column < y[3]; ++column) {
            for (int64_t i = 0; i < w[2]; ++i) {
              for (int64_t j = 0; j < w[3]; ++j) {
                const int64_t h = row * g.stride[0] - g.padding[0] + i * g.dilation[0];
                const int64_t v = column * g.stride[1] - g.padding[1] + j * g.dilation[1];
                if (h < 0 || h >= x[2] || v < 0 || v >= x[3]) continue;
                visit(((n * x[1] + channel) * x[2] + h) * x[3] + v, ((o * w[1] + c) * w[2] + i) * w[3] + j,
                      ((n * y[1] + o) * y[2] + row) * y[3] + column);
              }
            }
          }
        }
      }
    }
  }
}

int64_t channel_of(int64_t place, const Shape& y) {
  return place / (y[2] * y[3]) % y[1];
}

void forward(const Call& call) {
  const auto& op = call.as<Conv2d>();
  const Shape& shape = call.shape_out(0);
  const double *x = call.in(0), *w = call.in(1);
  double* y = call.out(0);
  for (int64_t i = 0; i < call.count_out(0); ++i)
    y[i] = call.has_input(2) ? call.in(2)[channel_of(i, shape)] : 0;
  for_each_product(op.geometry, call.shape_in(0), call.shape_in(1), shape,
                   [=](int64_t ix, int64_t iw, int64_t iy) { y[iy] += x[ix] * w[iw]; });
  if (!op.relu) return;
  for (int64_t i = 0; i < call.count_out(0); ++i) y[i] = std::max(y[i], 0.0);
}

void backward_data(const Call& call) {
  const double *dy = call.in(0), *w = call.in(1);
  double* dx = call.out(0);
  std::fill_n(dx, call.count_out(0), 0.0);
  for_each_product(call.as<Conv2dBackwardData>().geometry, call.shape_out(0), call.shape_in(1),
                   call.shape_in(0), [=](int64_t ix, int64_t iw, int64_t iy) { dx[ix] += dy[iy] * w[iw]; });
}

void backward_weights(const Call& call) {
  const auto& op = call.as<Conv2dBackwardWeights>();
  const double *x = call.in(0), *dy = call.in(1);
  if (call.has_output(0)) {
    double* dw = call.out(0);
    std::fill_n(dw, call.count_out(0), 0.0);
    for_each_product(op.geometry, call.shape_in(0), op.w_shape, call.shape_in(1),
                     [=](int64_t ix, int64_t iw, int64_t iy) { dw[iw] += x[ix] * dy[iy]; });
  }
  if (!call.has_output(1)) return;
  std::fill_n(call.out(1), call.count_out(1), 0.0);
  for (int64_t i = 0; i < call.count_in(1); ++i) call.out(1)[channel_of(i, call.shape_in(1))] += dy[i];
}

}  // namespace

void add_convolution(Loops& loops) {
  loops[typeid(Conv2d)] = forward;
  loops[typeid(Conv2dBackwardData)] = backward_data;
  loops[typeid(Conv2dBackwardWeights)] = backward_weights;
}

}  // namespace trainer::reference
