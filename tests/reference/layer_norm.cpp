// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/layer_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/reference/low_types.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

void layer_norm(const Call& call) {
  const auto& op = call.as<LayerNorm>();
  const int64_t width = call.shape_in(LayerNorm::kX).back(), rows = call.count_in(LayerNorm::kX) / width;
  const auto count = static_cast<double>(width);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = row * width;
    auto value = [&](int64_t i) {
      if (!call.has_input(LayerNorm::kResidual)) return call.in(LayerNorm::kX)[first + i];
      const double sum = call.in(LayerNorm::kX)[first + i] + call.in(LayerNorm::kResidual)[first + i];
      return call.rounds && is_low(call.inputs[LayerNorm::kX].dtype)
                 ? rounded(sum, call.inputs[LayerNorm::kX].dtype)
                 : sum;
    };
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < width && !op.rms; ++i) mean += value(i) / count;
    for (int64_t i = 0; i < width; ++i) squares += std::pow(value(i) - mean, 2);
    const double factor = 1 / std::sqrt(squares / count + op.eps);
    if (call.has_output(LayerNorm::kFactor)) call.out(LayerNorm::kFactor)[row] = factor;
    if (!op.rms && call.has_output(LayerNorm::kMean)) call.out(LayerNorm::kMean)[row] = mean;
    for (int64_t i = 0; i < width; ++i) {
      const double s = value(i);  // read before either output, which may share an input's memory
      call.out(LayerNorm::kY)[first + i] =
          (call.has_input(LayerNorm::kGamma) ? call.in(LayerNorm::kGamma)[i] : 1) * (s - mean) * factor +
          (call.has_input(LayerNorm::kBeta) ? call.in(LayerNorm::kBeta)[i] : 0);
      if (call.has_output(op.sum_output())) call.out(op.sum_output())[first + i] = s;
    }
  }
}

/// With the normalised h = (s - mean) * factor and g = gamma * dy:
/// dx = factor * (g - mean of g - h * mean of g h) + other; with `rms` the mean of g is omitted.
void layer_norm_backward(const Call& call) {
  const bool rms = call.as<LayerNormBackward>().rms;
  const int64_t width = call.shape_in(LayerNormBackward::kSum).back(),
                rows = call.count_in(LayerNormBackward::kSum) / width;
  const auto count = static_cast<double>(width);
  std::vector<double> dgamma(static_cast<size_t>(width)), dbeta(static_cast<size_t>(width));
  for (int64_t row = 0; row < rows; ++row) {
    const double factor = call.in(LayerNormBackward::kFactor)[row],
                 mean = rms ? 0 : call.in(LayerNormBackward::kMean)[row];
    const double *dy = call.in(LayerNormBackward::kDy) + row * width,
                 *s = call.in(LayerNormBackward::kSum) + row * width;
    auto slope = [&](int64_t i) {
      return (call.has_input(LayerNormBackward::kGamma) ? call.in(LayerNormBackward::kGamma)[i] : 1) * dy[i];
    };
    double slopes = 0, products = 0;
    for (int64_t i = 0; i < width; ++i) {
      const double normal = (s[i] - mean) * factor;
      if (!rms) slopes += slope(i) / count;
      products += slope(i) * normal / count;
      dgamma[static_cast<size_t>(i)] += dy[i] * normal;
      dbeta[static_cast<size_t>(i)] += dy[i];
    }
    for (int64_t i = 0; i < width; ++i) {
      const double other = call.has_input(LayerNormBackward::kOtherDy)
                               ? call.in(LayerNormBackward::kOtherDy)[row * width + i]
                               : 0;
      call.out(LayerNormBackward::kDx)[row * width + i] =
          factor * (slope(i) - slopes - (s[i] - mean) * factor * products) + other;
    }
  }
  if (call.has_output(LayerNormBackward::kDgamma))
    std::copy(dgamma.begin(), dgamma.end(), call.out(LayerNormBackward::kDgamma));
  if (call.has_output(LayerNormBackward::kDbeta))
    std::copy(dbeta.begin(), dbeta.end(), call.out(LayerNormBackward::kDbeta));
}

}  // namespace

void add_layer_norm(Loops& loops) {
  loops[typeid(LayerNorm)] = layer_norm;
  loops[typeid(LayerNormBackward)] = layer_norm_backward;
}

}  // namespace trainer::reference
