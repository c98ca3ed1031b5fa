// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/graph/ops/pool2d.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// Calls visit(place in x, in the window, in y) for every element of every window, padding left out.
template <class Visit>
void for_each_element(const Conv2dGeometry& g, const Shape& x, const Shape& y, Visit visit) {
  const int64_t images = y[0] * y[1];
  for (int64_t image = 0; image < images; ++image) {
    for (int64_t row = 0; row < y[2]; ++row) {
      for (int64_t column = 0; column < y[3]; ++column) {
        for (int64_t i = 0; i < g.kernel[0]; ++i) {
          for (int64_t j = 0; j < g.kernel[1]; ++j) {
            const int64_t h = row * g.stride[0] - g.padding[0] + i;
            const int64_t v = column * g.stride[1] - g.padding[1] + j;
            if (h < 0 || h >= x[2] || v < 0 || v >= x[3]) continue;
            visit((image * x[2] + h) * x[3] + v, i * g.kernel[1] + j, (image * y[2] + row) * y[3] + column);
          }
        }
      }
    }
  }
}

double share(const Conv2dGeometry& g) {
  return 1.0 / static_cast<double>(g.kernel[0] * g.kernel[1]);
}

void max_forward(const Call& call) {
  const double* x = call.in(MaxPool2d::kX);
  double* y = call.out(MaxPool2d::kY);
  uint8_t* places = call.has_output(MaxPool2d::kPlaces) ? call.out<uint8_t>(MaxPool2d::kPlaces) : nullptr;
  std::vector<bool> begun(static_cast<size_t>(call.count_out(MaxPool2d::kY)));
  for_each_element(call.as<MaxPool2d>().geometry, call.shape_in(MaxPool2d::kX), call.shape_out(MaxPool2d::kY),
                   [&](int64_t ix, int64_t place, int64_t iy) {
                     const bool is_first = !begun[static_cast<size_t>(iy)];
                     begun[static_cast<size_t>(iy)] = true;
                     if (!is_first && !(x[ix] > y[iy]) && !std::isnan(x[ix])) return;
                     y[iy] = x[ix];
                     if (places != nullptr) places[iy] = static_cast<uint8_t>(place);
                   });
}

void max_backward(const Call& call) {
  const double* dy = call.in(MaxPool2dBackward::kDy);
  const uint8_t* places = call.in<uint8_t>(MaxPool2dBackward::kPlaces);
  double* dx = call.out(MaxPool2dBackward::kDx);
  std::fill_n(dx, call.count_out(MaxPool2dBackward::kDx), 0.0);
  for_each_element(call.as<MaxPool2dBackward>().geometry, call.shape_out(MaxPool2dBackward::kDx),
                   call.shape_in(MaxPool2dBackward::kDy), [=](int64_t ix, int64_t place, int64_t iy) {
                     if (places[iy] == place) dx[ix] += dy[iy];
                   });
}

void average_forward(const Call& call) {
  const auto& g = call.as<AvgPool2d>().geometry;
  const double* x = call.in(AvgPool2d::kX);
  double* y = call.out(AvgPool2d::kY);
  std::fill_n(y, call.count_out(AvgPool2d::kY), 0.0);
  for_each_element(g, call.shape_in(AvgPool2d::kX), call.shape_out(AvgPool2d::kY),
                   [=, part = share(g)](int64_t ix, int64_t, int64_t iy) { y[iy] += x[ix] * part; });
}

void average_backward(const Call& call) {
  const auto& g = call.as<AvgPool2dBackward>().geometry;
  const double* dy = call.in(AvgPool2dBackward::kDy);
  double* dx = call.out(AvgPool2dBackward::kDx);
  std::fill_n(dx, call.count_out(AvgPool2dBackward::kDx), 0.0);
  for_each_element(g, call.shape_out(AvgPool2dBackward::kDx), call.shape_in(AvgPool2dBackward::kDy),
                   [=, part = share(g)](int64_t ix, int64_t, int64_t iy) { dx[ix] += dy[iy] * part; });
}

}  // namespace

void add_pooling(Loops& loops) {
  loops[typeid(MaxPool2d)] = max_forward;
  loops[typeid(MaxPool2dBackward)] = max_backward;
  loops[typeid(AvgPool2d)] = average_forward;
  loops[typeid(AvgPool2dBackward)] = average_backward;
}

}  // namespace trainer::reference
