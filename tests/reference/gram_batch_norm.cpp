// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/gram_batch_norm.h"

#include <cmath>

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// The product of row c of two inputs (C, K), or of one with an input (K).
double row_product(const Call& call, int64_t c, size_t a, size_t b) {
  const int64_t features = call.shape_in(0)[1], other = call.shape_in(b).size() == 1 ? 0 : c * features;
  double sum = 0;
  for (int64_t k = 0; k < features; ++k) sum += call.in(a)[c * features + k] * call.in(b)[other + k];
  return sum;
}

/// w, t, s, gamma, beta
void gram_batch_norm(const Call& call) {
  const auto& op = call.as<GramBatchNorm>();
  const int64_t features = call.shape_in(0)[1];
  const auto rows = static_cast<double>(op.rows);
  for (int64_t c = 0; c < call.shape_in(0)[0]; ++c) {
    const double mean = row_product(call, c, 0, 2) / rows;
    const double variance = row_product(call, c, 0, 1) / rows - mean * mean;
    const double scale = call.in(3)[c] / std::sqrt(variance + op.eps) + 0 * call.in(4)[c];
    for (int64_t i = c * features; i < (c + 1) * features; ++i) call.out(0)[i] = call.in(0)[i] * scale;
    if (call.has_output(1)) call.out(1)[c] = call.in(4)[c] - mean * scale;
    if (call.has_output(2)) call.out(2)[c] = mean;
    if (call.has_output(3)) call.out(3)[c] = variance;
  }
}

/// w, t, s, p, sum of g, gamma, mean, variance
void gram_batch_norm_backward(const Call& call) {
  const auto& op = call.as<GramBatchNormBackward>();
  const int64_t features = call.shape_in(0)[1];
  const auto rows = static_cast<double>(op.rows);
  for (int64_t c = 0; c < call.shape_in(0)[0]; ++c) {
    const double sum = call.in(4)[c], mean = call.in(6)[c], inverse = 1 / std::sqrt(call.in(7)[c] + op.eps);
    const double dgamma = inverse * (row_product(call, c, 3, 0) - mean * sum);
    const double k = call.in(5)[c] * inverse, a = sum / rows, b = inverse * dgamma / rows;
    for (int64_t j = 0; j < features; ++j) {
      const int64_t i = c * features + j;
      const double s = call.in(2)[j];
      call.out(0)[i] = k * (call.in(3)[i] - a * s - b * (call.in(1)[i] - mean * s));
      if (call.has_output(2)) call.out(2)[i] = -op.scale * k * b * call.in(0)[i];
    }
    if (call.has_output(1)) call.out(1)[c] = dgamma;
    if (call.has_output(3)) call.out(3)[c] = -op.scale * k * (a - b * mean);
  }
}

}  // namespace

void add_gram_batch_norm(Loops& loops) {
  loops[typeid(GramBatchNorm)] = gram_batch_norm;
  loops[typeid(GramBatchNormBackward)] = gram_batch_norm_backward;
}

}  // namespace trainer::reference
