// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/scale_features.h"

#include <algorithm>

#include "core/graph/ops/linear.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

template <class T>
TRAINER_MULTIVERSION void scale_features_row(const T* x, const float* factors, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) put(float(x[i]) * factors[i], y[i]);
}

std::unique_ptr<Kernel> compile_factors(const OpContext& c, const Choice&, const Slots& slots) {
  const Shape rows = as_rows(c.inputs[ScaleFeatures::kX].shape);
  return with_storage(c.inputs[ScaleFeatures::kX].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel([=, count = rows[0], width = rows[1], x = slots.inputs[ScaleFeatures::kX],
                   s = slots.inputs[ScaleFeatures::kFactors], y = slots.outputs[ScaleFeatures::kY]] {
      parallel_rows(count, width, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          scale_features_row(at<const T>(x) + row * width, at<const float>(s), at<T>(y) + row * width, width);
      });
    });
  });
}

/// Columns that are summed together, and rows that are summed in f32 before the sum goes into double.
constexpr int64_t kFactorStrip = 64, kFactorStripRows = 256;

template <class T>
TRAINER_MULTIVERSION void sum_factor_strip(const T* dy, const T* x, int64_t rows, int64_t width,
                                           int64_t columns, float* ds) {
  double sums[kFactorStrip] = {};
  for (int64_t first = 0; first < rows; first += kFactorStripRows) {
    float part[kFactorStrip] = {};
    for (int64_t row = first; row < std::min(first + kFactorStripRows, rows); ++row) {
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) part[i] += float(dy[row * width + i]) * float(x[row * width + i]);
    }
    for (int64_t i = 0; i < columns; ++i) sums[i] += part[i];
  }
  for (int64_t i = 0; i < columns; ++i) ds[i] = static_cast<float>(sums[i]);
}

/// Threads take columns, so that results are bitwise identical for any number of threads.
std::unique_ptr<Kernel> compile_factor_sums(const OpContext& c, const Choice&, const Slots& slots) {
  const Shape rows = as_rows(c.inputs[ScaleFeaturesBackward::kDy].shape);
  return with_storage(c.inputs[ScaleFeaturesBackward::kDy].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel([=, count = rows[0], width = rows[1], dy = slots.inputs[ScaleFeaturesBackward::kDy],
                   x = slots.inputs[ScaleFeaturesBackward::kX],
                   ds = slots.outputs[ScaleFeaturesBackward::kDfactors]] {
      parallel_ranges(width, 16, kElementsWorthAThread / count, [=](int64_t begin, int64_t end) {
        for (int64_t column = begin; column < end; column += kFactorStrip) {
          sum_factor_strip(at<const T>(dy) + column, at<const T>(x) + column, count, width,
                           std::min(kFactorStrip, end - column), at<float>(ds) + column);
        }
      });
    });
  });
}

}  // namespace

void add_scale_features(Handlers& handlers) {
  handlers[typeid(ScaleFeatures)] = {select_row_major, compile_factors, {}};
  handlers[typeid(ScaleFeaturesBackward)] = {select_row_major, compile_factor_sums, {}};
}

}  // namespace trainer::cpu
