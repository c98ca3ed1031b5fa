// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/base/math.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// y may be x. A NaN makes all of its row NaN, through its exponential.
TRAINER_MULTIVERSION void softmax_row(bool log, const float* x, float* y, int64_t classes) {
  float largest = x[0], sum = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t c = 0; c < classes; ++c) largest = x[c] > largest ? x[c] : largest;
  // clang begins such a reduction with the smallest finite number, which is more than a row of -inf.
  if (largest == std::numeric_limits<float>::lowest()) largest = *std::max_element(x, x + classes);
  if (log) {
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < classes; ++c) sum += math::exp(x[c] - largest);
    const float log_sum = std::log(sum);
#pragma omp simd
    for (int64_t c = 0; c < classes; ++c) y[c] = (x[c] - largest) - log_sum;
    return;
  }
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < classes; ++c) sum += y[c] = math::exp(x[c] - largest);
  const float inverse = 1 / sum;
#pragma omp simd
  for (int64_t c = 0; c < classes; ++c) y[c] *= inverse;
}

TRAINER_MULTIVERSION void softmax_gradient_row(bool log, const float* dy, const float* y, float* dx,
                                               int64_t classes) {
  float sum = 0;
  if (log) {
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < classes; ++c) sum += dy[c];
#pragma omp simd
    for (int64_t c = 0; c < classes; ++c) dx[c] = dy[c] - math::exp(y[c]) * sum;
    return;
  }
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < classes; ++c) sum += dy[c] * y[c];
#pragma omp simd
  for (int64_t c = 0; c < classes; ++c) dx[c] = y[c] * (dy[c] - sum);
}

/// Pixels that are processed side by side, class by class.
constexpr int64_t kSoftmaxStrip = 128;
using Strip = std::array<float, kSoftmaxStrip>;

/// The classes of `pixels` neighbours, each class `step` elements after the one before.
TRAINER_MULTIVERSION void softmax_strip(bool log, const float* x, float* y, const SoftmaxSizes& e,
                                        int64_t pixels) {
  Strip largest, sums{};
  std::copy(x, x + pixels, largest.data());
  for (int64_t c = 1; c < e.classes; ++c) {
#pragma omp simd
    for (int64_t i = 0; i < pixels; ++i) {
      const float value = x[c * e.step + i];
      largest[size_t(i)] = value > largest[size_t(i)] ? value : largest[size_t(i)];
    }
  }
  for (int64_t c = 0; c < e.classes; ++c) {
#pragma omp simd
    for (int64_t i = 0; i < pixels; ++i) {
      const float value = math::exp(x[c * e.step + i] - largest[size_t(i)]);
      sums[size_t(i)] += value;
      if (!log) y[c * e.step + i] = value;
    }
  }
  for (int64_t i = 0; i < pixels; ++i)
    sums[size_t(i)] = log ? largest[size_t(i)] + std::log(sums[size_t(i)]) : 1 / sums[size_t(i)];
  for (int64_t c = 0; c < e.classes; ++c) {
#pragma omp simd
    for (int64_t i = 0; i < pixels; ++i) {
      const int64_t at = c * e.step + i;
      y[at] = log ? x[at] - sums[size_t(i)] : y[at] * sums[size_t(i)];
    }
  }
}

TRAINER_MULTIVERSION void softmax_gradient_strip(bool log, const float* dy, const float* y, float* dx,
                                                 const SoftmaxSizes& e, int64_t pixels) {
  Strip sums{};
  for (int64_t c = 0; c < e.classes; ++c) {
#pragma omp simd
    for (int64_t i = 0; i < pixels; ++i) {
      const int64_t at = c * e.step + i;
      sums[size_t(i)] += log ? dy[at] : dy[at] * y[at];
    }
  }
  for (int64_t c = 0; c < e.classes; ++c) {
#pragma omp simd
    for (int64_t i = 0; i < pixels; ++i) {
      const int64_t at = c * e.step + i;
      dx[at] = log ? dy[at] - math::exp(y[at]) * sums[size_t(i)] : y[at] * (dy[at] - sums[size_t(i)]);
    }
  }
}

/// Calls row(first) with the position of each row's first class or, for images, strip(first, pixels).
template <class RowWork, class StripWork>
void for_each_softmax(const SoftmaxSizes& e, const RowWork& row, const StripWork& strip) {
  const int64_t strips = (e.step + kSoftmaxStrip - 1) / kSoftmaxStrip;
  parallel_rows(e.rows * strips, e.classes * std::min(e.step, kSoftmaxStrip),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    if (e.step == 1) {
                      row(i * e.classes);
                      continue;
                    }
                    const int64_t pixel = i % strips * kSoftmaxStrip;
                    strip(i / strips * e.classes * e.step + pixel, std::min(kSoftmaxStrip, e.step - pixel));
                  }
                });
}

std::unique_ptr<Kernel> compile_softmax(const OpContext& context, const Choice&, const Slots& slots) {
  const SoftmaxSizes e(context.inputs[Softmax::kX].shape);
  return kernel([=, log = static_cast<const Softmax&>(context.op).log, from = slots.inputs[Softmax::kX],
                 to = slots.outputs[Softmax::kY]] {
    const auto* x = at<const float>(from);
    auto* y = at<float>(to);
    for_each_softmax(
        e, [=](int64_t first) { softmax_row(log, x + first, y + first, e.classes); },
        [=](int64_t first, int64_t pixels) { softmax_strip(log, x + first, y + first, e, pixels); });
  });
}

std::unique_ptr<Kernel> compile_softmax_backward(const OpContext& context, const Choice&,
                                                 const Slots& slots) {
  const SoftmaxSizes e(context.inputs[SoftmaxBackward::kDy].shape);
  return kernel([=, log = static_cast<const SoftmaxBackward&>(context.op).log] {
    const auto *dy = at<const float>(slots.inputs[SoftmaxBackward::kDy]),
               *y = at<const float>(slots.inputs[SoftmaxBackward::kY]);
    auto* dx = at<float>(slots.outputs[SoftmaxBackward::kDx]);
    for_each_softmax(
        e, [=](int64_t first) { softmax_gradient_row(log, dy + first, y + first, dx + first, e.classes); },
        [=](int64_t first, int64_t pixels) {
          softmax_gradient_strip(log, dy + first, y + first, dx + first, e, pixels);
        });
  });
}

}  // namespace

void add_softmax(Handlers& handlers) {
  handlers[typeid(Softmax)] = {select_row_major, compile_softmax, {}};
  handlers[typeid(SoftmaxBackward)] = {select_row_major, compile_softmax_backward, {}};
}

}  // namespace trainer::cpu
