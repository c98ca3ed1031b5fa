// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

// Collectives over a tensor that is cut into equal parts, one for each rank. Elements are those of the whole
// in row-major order; what the parts have beyond them is zero. Each is the other's gradient. Every rank runs
// the same ones in the same order.

/// The parts of all ranks (P), floating point -> the whole. The whole has at most ranks * P elements.
class AllGather final : public Operation {
 public:
  enum : size_t { kPart, kInputs };
  enum : size_t { kWhole };

  AllGather(int64_t count, Shape shape) : ranks(count), whole(std::move(shape)) {}
  std::string_view name() const override { return "all_gather"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }

  const int64_t ranks;
  const Shape whole;
};

/// The tensors of all ranks, f32 and of one shape -> this rank's part (P) of their sum.
class ReduceScatter final : public Operation {
 public:
  enum : size_t { kWhole, kInputs };
  enum : size_t { kPart };

  ReduceScatter(int64_t count, int64_t elements) : ranks(count), part(elements) {}
  std::string_view name() const override { return "reduce_scatter"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }

  const int64_t ranks, part;
};

}  // namespace trainer
