// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/gram_batch_norm.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainer {
namespace {

/// Operations on each weight: two products for the moments and a scaling; one product, and the computation of
/// dw and d.
constexpr double kGramFlops = 5, kGramBackwardFlops = 8;

/// w is the first input. The inputs `matrices` are of w's shape (C, K), the input `sums` is (K), all others
/// are (C).
void expect_all(std::span<const TensorSpec> inputs, const std::vector<size_t>& matrices, size_t sums) {
  const Shape& w = inputs[0].shape;
  expect(w.size() == 2, "expected weights (C, K), got " + to_string(w));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_matrix = std::ranges::find(matrices, i) != matrices.end();
    const Shape wanted = is_matrix ? w : i == sums ? Shape{w[1]} : Shape{w[0]};
    expect(inputs[i] == TensorSpec{wanted, DType::f32},
           fmt::format("input {} must be {} in f32, got {} in {}", i, to_string(wanted),
                       to_string(inputs[i].shape), to_string(inputs[i].dtype)));
  }
}

double per_weight(double flops, std::span<const TensorSpec> inputs) {
  return flops * static_cast<double>(numel(inputs[0].shape));
}

}  // namespace

void GramBatchNorm::describe(AttributeVisitor& visit) const {
  visit("eps", eps, {.digits = 6});
  visit("rows", rows);
  visit("dtype", std::string(to_string(dtype)));
}

std::vector<TensorSpec> GramBatchNorm::infer(std::span<const TensorSpec> inputs) const {
  expect_all(inputs, {kWeight, kProduct}, kSums);
  const Shape &w = inputs[kWeight].shape, channels{w[0]};
  const TensorSpec statistic{.shape = channels, .dtype = DType::f32};
  return {{.shape = w, .dtype = dtype}, {.shape = channels, .dtype = dtype}, statistic, statistic};
}

double GramBatchNorm::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return per_weight(kGramFlops, inputs);
}

void GramBatchNormBackward::describe(AttributeVisitor& visit) const {
  visit("eps", eps, {.digits = 6});
  visit("rows", rows);
  visit("dtype", std::string(to_string(dtype)));
  visit("scale", scale, {.hidden = scale == 1});
}

std::vector<TensorSpec> GramBatchNormBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_all(inputs, {kWeight, kProduct, kGradientProduct}, kSums);
  const Shape& w = inputs[kWeight].shape;
  return {{.shape = w, .dtype = DType::f32},
          {.shape = {w[0]}, .dtype = DType::f32},
          {.shape = w, .dtype = dtype},
          {.shape = {1, w[0]}, .dtype = dtype}};
}

double GramBatchNormBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return per_weight(kGramBackwardFlops, inputs);
}

}  // namespace trainer
