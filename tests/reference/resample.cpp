// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/graph/ops/resample2d.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// The share of input i in output o along one axis, computed independently: the operation has lists of taps.
double share(Resampling how, int64_t i, int64_t in, int64_t o, int64_t out) {
  const auto n = static_cast<double>(in), m = static_cast<double>(out), place = static_cast<double>(o);
  double at = 0;
  switch (how) {
    case Resampling::nearest:
      return i == static_cast<int64_t>(std::floor(place * n / m)) ? 1 : 0;
    case Resampling::average: {
      const double first = std::floor(place * n / m), end = std::ceil((place + 1) * n / m);
      return static_cast<double>(i) >= first && static_cast<double>(i) < end ? 1 / (end - first) : 0;
    }
    case Resampling::bilinear:
      at = (place + 0.5) * n / m - 0.5;
      break;
    case Resampling::bilinear_aligned:
      at = out == 1 ? 0 : place * (n - 1) / (m - 1);
      break;
  }
  at = std::clamp(at, 0.0, n - 1);
  return std::max(0.0, 1 - std::abs(at - static_cast<double>(i)));
}

/// Calls visit(place in x, place in y, share) for every pair with a share.
template <class Visit>
void for_each_pair(Resampling how, const Shape& x, const Shape& y, Visit visit) {
  for (int64_t image = 0; image < x[0] * x[1]; ++image) {
    for (int64_t r = 0; r < y[2] * x[2]; ++r) {
      const int64_t row = r / x[2], h = r % x[2];
      const double vertical = share(how, h, x[2], row, y[2]);
      for (int64_t c = 0; vertical != 0 && c < y[3] * x[3]; ++c) {
        const int64_t column = c / x[3], w = c % x[3];
        const double both = vertical * share(how, w, x[3], column, y[3]);
        if (both == 0) continue;
        visit((image * x[2] + h) * x[3] + w, (image * y[2] + row) * y[3] + column, both);
      }
    }
  }
}

void resample_forward(const Call& c) {
  std::fill_n(c.out(Resample2d::kY), c.count_out(Resample2d::kY), 0.0);
  for_each_pair(c.as<Resample2d>().how, c.shape_in(Resample2d::kX), c.shape_out(Resample2d::kY),
                [&](int64_t ix, int64_t iy, double part) {
                  c.out(Resample2d::kY)[iy] += part * c.in(Resample2d::kX)[ix];
                });
}

void resample_backward(const Call& c) {
  std::fill_n(c.out(Resample2dBackward::kDx), c.count_out(Resample2dBackward::kDx), 0.0);
  for_each_pair(c.as<Resample2dBackward>().how, c.shape_out(Resample2dBackward::kDx),
                c.shape_in(Resample2dBackward::kDy), [&](int64_t ix, int64_t iy, double part) {
                  c.out(Resample2dBackward::kDx)[ix] += part * c.in(Resample2dBackward::kDy)[iy];
                });
}

}  // namespace

void add_resample(Loops& loops) {
  loops[typeid(Resample2d)] = resample_forward;
  loops[typeid(Resample2dBackward)] = resample_backward;
}

}  // namespace trainer::reference
