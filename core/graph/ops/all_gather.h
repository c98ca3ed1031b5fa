// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/ops/all_reduce.h"

namespace trainer {

// Collectives over a tensor that is cut into equal parts, one for each of the ranks that share a copy
// (Axis::shards). Elements are those of the whole in row-major order; what the parts have beyond them is
// zero. Each is the other's gradient. No device computes these: overlap_collectives replaces them by halves.

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

/// Starts to gather tensors from the ranks' parts.
class AllGatherStart final : public CollectiveStart {
 public:
  AllGatherStart(int64_t its_number, std::vector<Shape> shapes)
      : CollectiveStart(its_number, Axis::shards), wholes(std::move(shapes)) {}
  std::string_view name() const override { return "all_gather_start"; }
  /// The parts (P), floating point -> the wholes.
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t, size_t) const override { return false; }

  const std::vector<Shape> wholes;
};

/// Starts to add tensors up in parts.
class ReduceScatterStart final : public CollectiveStart {
 public:
  ReduceScatterStart(int64_t its_number, std::vector<int64_t> elements)
      : CollectiveStart(its_number, Axis::shards), parts(std::move(elements)) {}
  std::string_view name() const override { return "reduce_scatter_start"; }
  /// f32 -> this rank's parts (P) of the sums.
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t, size_t) const override { return false; }

  const std::vector<int64_t> parts;
};

}  // namespace trainer
