// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "core/graph/ops/conv2d.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// Outputs along one dimension with their place in x, `output * stride + offset`, within it.
struct Range {
  int64_t begin, end;
};
Range range_inside(int64_t stride, int64_t offset, int64_t inputs, int64_t outputs) {
  const int64_t begin = offset < 0 ? (-offset + stride - 1) / stride : 0;
  const int64_t end = offset < inputs ? (inputs - 1 - offset) / stride + 1 : 0;
  return {begin, std::min(end, outputs)};
}

/// Calls visit(place in x, in w, in y) for every product that a convolution sums up; x (N, C, H, W),
/// w (O, C / groups, kh, kw), y (N, O, H', W'). A row of outputs is innermost: most of the tests' time is
/// spent here.
template <class Visit>
void for_each_product(const Conv2dGeometry& g, const Shape& x, const Shape& w, const Shape& y, Visit visit) {
  const int64_t group_outputs = w[0] / g.groups, taps = w[2] * w[3], stride = g.stride[1];
  for (int64_t plane = 0; plane < y[0] * y[1] * w[1]; ++plane) {
    const int64_t n = plane / w[1] / y[1], o = plane / w[1] % y[1], c = plane % w[1];
    const int64_t channel = o / group_outputs * w[1] + c;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t below = tap / w[3] * g.dilation[0] - g.padding[0];
      const int64_t right = tap % w[3] * g.dilation[1] - g.padding[1];
      const Range rows = range_inside(g.stride[0], below, x[2], y[2]);
      const Range columns = range_inside(stride, right, x[3], y[3]);
      const int64_t iw = (o * w[1] + c) * taps + tap;
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        const int64_t ix = ((n * x[1] + channel) * x[2] + row * g.stride[0] + below) * x[3] + right;
        const int64_t iy = ((n * y[1] + o) * y[2] + row) * y[3];
        for (int64_t i = columns.begin; i < columns.end; ++i) visit(ix + i * stride, iw, iy + i);
      }
    }
  }
}

/// The sums of the result or, as the second, of its squares over each channel. A variance is the small
/// difference of large sums, so double alone would cost digits.
void put_sums(const Call& call, size_t output) {
  const Shape& shape = call.shape_out(Conv2d::kY);
  const int64_t channels = shape[1], area = shape[2] * shape[3];
  const double* y = call.out(Conv2d::kY);
  std::vector<long double> sums(static_cast<size_t>(channels));
  for (int64_t i = 0; i < call.count_out(Conv2d::kY); ++i) {
    const long double value = y[i];
    sums[static_cast<size_t>(i / area % channels)] += output == Conv2d::kSums ? value : value * value;
  }
  std::ranges::transform(sums, call.out(output), [](long double sum) { return static_cast<double>(sum); });
}

void forward(const Call& call) {
  const auto& op = call.as<Conv2d>();
  const Shape& shape = call.shape_out(Conv2d::kY);
  const double *x = call.in(Conv2d::kX), *w = call.in(Conv2d::kWeight),
               *bias = call.has_input(Conv2d::kBias) ? call.in(Conv2d::kBias) : nullptr;
  double* y = call.out(Conv2d::kY);
  const int64_t count = call.count_out(Conv2d::kY), channels = shape[1], area = shape[2] * shape[3];
  std::vector<double> products(static_cast<size_t>(count));  // y may be the residual's memory
  for (int64_t i = 0; bias != nullptr && i < count; ++i)
    products[static_cast<size_t>(i)] = bias[i / area % channels];
  for_each_product(
      op.geometry, call.shape_in(Conv2d::kX), call.shape_in(Conv2d::kWeight), shape,
      [&](int64_t ix, int64_t iw, int64_t iy) { products[static_cast<size_t>(iy)] += x[ix] * w[iw]; });
  const double* residual = call.has_input(Conv2d::kResidual) ? call.in(Conv2d::kResidual) : nullptr;
  for (int64_t i = 0; i < count; ++i) {
    const double sum = products[static_cast<size_t>(i)] + (residual == nullptr ? 0 : residual[i]);
    y[i] = op.relu && sum < 0 ? 0 : sum;
  }
  for (const size_t o : {Conv2d::kSums, Conv2d::kSquares}) {
    if (op.moments && call.has_output(o)) put_sums(call, o);
  }
}

void backward_data(const Call& call) {
  const double *dy = call.in(Conv2dBackwardData::kDy), *w = call.in(Conv2dBackwardData::kWeight);
  double* dx = call.out(Conv2dBackwardData::kDx);
  std::fill_n(dx, call.count_out(Conv2dBackwardData::kDx), 0.0);
  for_each_product(call.as<Conv2dBackwardData>().geometry, call.shape_out(Conv2dBackwardData::kDx),
                   call.shape_in(Conv2dBackwardData::kWeight), call.shape_in(Conv2dBackwardData::kDy),
                   [=](int64_t ix, int64_t iw, int64_t iy) { dx[ix] += dy[iy] * w[iw]; });
}

void backward_weights(const Call& call) {
  const auto& op = call.as<Conv2dBackwardWeights>();
  const double *x = call.in(Conv2dBackwardWeights::kX), *dy = call.in(Conv2dBackwardWeights::kDy);
  if (call.has_output(Conv2dBackwardWeights::kDweight)) {
    double* dw = call.out(Conv2dBackwardWeights::kDweight);
    std::fill_n(dw, call.count_out(Conv2dBackwardWeights::kDweight), 0.0);
    for_each_product(op.geometry, call.shape_in(Conv2dBackwardWeights::kX), op.w_shape,
                     call.shape_in(Conv2dBackwardWeights::kDy),
                     [=](int64_t ix, int64_t iw, int64_t iy) { dw[iw] += x[ix] * dy[iy]; });
  }
  if (!call.has_output(Conv2dBackwardWeights::kDbias)) return;
  const Shape& shape = call.shape_in(Conv2dBackwardWeights::kDy);
  const int64_t count = call.count_in(Conv2dBackwardWeights::kDy), channels = shape[1],
                area = shape[2] * shape[3];
  std::fill_n(call.out(Conv2dBackwardWeights::kDbias), channels, 0.0);
  for (int64_t i = 0; i < count; ++i) call.out(Conv2dBackwardWeights::kDbias)[i / area % channels] += dy[i];
}

}  // namespace

void add_convolution(Loops& loops) {
  loops[typeid(Conv2d)] = forward;
  loops[typeid(Conv2dBackwardData)] = backward_data;
  loops[typeid(Conv2dBackwardWeights)] = backward_weights;
}

}  // namespace trainer::reference
