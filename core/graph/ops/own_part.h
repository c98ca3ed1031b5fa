// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// x, or a cast of it.
TensorId as_type(Builder& build, TensorId x, DType dtype);

/// A tensor that all ranks have -> this rank's part of it, as all_gather has it: elements in row-major order,
/// zeros beyond the whole. The ranks compute the tensor alike, and each needs its whole gradient.
class OwnPart final : public Operation {
 public:
  enum : size_t { kWhole, kInputs };
  enum : size_t { kPart };

  OwnPart(Along ranks, Shape shape) : along(ranks), part(std::move(shape)) {}
  std::string_view name() const override { return "own_part"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }

  const Along along;
  const Shape part;
};

/// x on the first rank, zeros on the others: what the ranks compute with it is added up, so that it counts
/// once. Each of them has its whole gradient.
class OnFirstRank final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  explicit OnFirstRank(Along ranks) : along(ranks) {}
  std::string_view name() const override { return "on_first_rank"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }

  const Along along;
};

/// x -> x. The ranks share the work on it, so its gradient is the sum of theirs. Exists until differentiation
/// has written that sum.
class SharedWork final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  explicit SharedWork(Along ranks) : along(ranks) {}
  std::string_view name() const override { return "shared_work"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }

  const Along along;
};

}  // namespace trainer
