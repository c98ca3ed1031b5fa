// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// y = op(a) op(b), both of which may be activations: a (M, K) and b (K, S) -> y (M, S). With a leading
/// dimension of samples, their matrices are multiplied one by one: (N, M, K) and (N, K, S) -> (N, M, S). A
/// transposed factor is stored as (K, M) or (S, K).
class MatMul final : public Operation {
 public:
  enum : size_t { kA, kB, kInputs };
  enum : size_t { kY };

  explicit MatMul(bool a_is_transposed = false, bool b_is_transposed = false)
      : transpose_a(a_is_transposed), transpose_b(b_is_transposed) {}
  std::string_view name() const override { return "matmul"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::low; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const bool transpose_a, transpose_b;
};

}  // namespace trainer
