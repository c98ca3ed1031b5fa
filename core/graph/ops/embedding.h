// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// ids i32 (N, T), table (V, E) -> y (N, T, E): the row of each id. The caller that binds the ids ensures
/// that all are below V; they are not checked here. Of several ranks each may have V of the rows, in their
/// order along an axis: y is then zero for the rows of others.
class Embedding final : public Operation {
 public:
  enum : size_t { kIds, kTable, kInputs };
  enum : size_t { kY };

  explicit Embedding(std::optional<Along> ranks = {}) : along(ranks) {}
  std::string_view name() const override { return "embedding"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override {
    if (along) trainer::describe(visit, *along);
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::low; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return true;
  }
  std::optional<size_t> table_input() const override { return kTable; }

  const std::optional<Along> along;  ///< ranks that share the table
};

/// ids i32 (N, T), dy (N, T, E) -> the gradient of the table (V, E), f32: for each row the sum of dy over the
/// tokens with its id, in their order; zero for an id that does not occur.
class EmbeddingBackward final : public Operation {
 public:
  enum : size_t { kIds, kDy, kInputs };
  enum : size_t { kDtable };

  explicit EmbeddingBackward(int64_t v, std::optional<Along> ranks = {}) : vocabulary(v), along(ranks) {}
  std::string_view name() const override { return "embedding_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override {
    visit("vocabulary", vocabulary, {.hidden = true});
    if (along) trainer::describe(visit, *along);
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const int64_t vocabulary;
  const std::optional<Along> along;  ///< as the embedding's
};

}  // namespace trainer
