// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/gram_batch_norm.h"

#include <cmath>

#include "core/base/moments.h"
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
  const int64_t features = call.shape_in(GramBatchNorm::kWeight)[1];
  const auto rows = static_cast<double>(op.rows);
  for (int64_t c = 0; c < call.shape_in(GramBatchNorm::kWeight)[0]; ++c) {
    const double mean = row_product(call, c, GramBatchNorm::kWeight, GramBatchNorm::kSums) / rows;
    const double variance =
        variance_of(row_product(call, c, GramBatchNorm::kWeight, GramBatchNorm::kProduct) / rows, mean);
    const double scale = call.in(GramBatchNorm::kGamma)[c] / std::sqrt(variance + op.eps) +
                         0 * call.in(GramBatchNorm::kBeta)[c];
    for (int64_t i = c * features; i < (c + 1) * features; ++i)
      call.out(GramBatchNorm::kFoldedWeight)[i] = call.in(GramBatchNorm::kWeight)[i] * scale;
    if (call.has_output(GramBatchNorm::kFoldedBias))
      call.out(GramBatchNorm::kFoldedBias)[c] = call.in(GramBatchNorm::kBeta)[c] - mean * scale;
    if (call.has_output(GramBatchNorm::kMean)) call.out(GramBatchNorm::kMean)[c] = mean;
    if (call.has_output(GramBatchNorm::kVariance)) call.out(GramBatchNorm::kVariance)[c] = variance;
  }
}

/// w, t, s, p, sum of g, gamma, mean, variance
void gram_batch_norm_backward(const Call& call) {
  const auto& op = call.as<GramBatchNormBackward>();
  const int64_t features = call.shape_in(GramBatchNormBackward::kWeight)[1];
  const auto rows = static_cast<double>(op.rows);
  for (int64_t c = 0; c < call.shape_in(GramBatchNormBackward::kWeight)[0]; ++c) {
    const double sum = call.in(GramBatchNormBackward::kGradientSums)[c],
                 mean = call.in(GramBatchNormBackward::kMean)[c],
                 inverse = 1 / std::sqrt(call.in(GramBatchNormBackward::kVariance)[c] + op.eps);
    const double dgamma = inverse * (row_product(call, c, GramBatchNormBackward::kGradientProduct,
                                                 GramBatchNormBackward::kWeight) -
                                     mean * sum);
    const double k = call.in(GramBatchNormBackward::kGamma)[c] * inverse, a = sum / rows,
                 b = inverse * dgamma / rows;
    for (int64_t j = 0; j < features; ++j) {
      const int64_t i = c * features + j;
      const double s = call.in(GramBatchNormBackward::kSums)[j];
      call.out(GramBatchNormBackward::kDweight)[i] =
          k * (call.in(GramBatchNormBackward::kGradientProduct)[i] - a * s -
               b * (call.in(GramBatchNormBackward::kProduct)[i] - mean * s));
      if (call.has_output(GramBatchNormBackward::kDataProduct))
        call.out(GramBatchNormBackward::kDataProduct)[i] =
            -op.scale * k * b * call.in(GramBatchNormBackward::kWeight)[i];
    }
    if (call.has_output(GramBatchNormBackward::kDgamma)) call.out(GramBatchNormBackward::kDgamma)[c] = dgamma;
    if (call.has_output(GramBatchNormBackward::kDataSums))
      call.out(GramBatchNormBackward::kDataSums)[c] = -op.scale * k * (a - b * mean);
  }
}

}  // namespace

void add_gram_batch_norm(Loops& loops) {
  loops[typeid(GramBatchNorm)] = gram_batch_norm;
  loops[typeid(GramBatchNormBackward)] = gram_batch_norm_backward;
}

}  // namespace trainer::reference
