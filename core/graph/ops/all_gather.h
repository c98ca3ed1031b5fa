// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/ops/all_reduce.h"

namespace trainer {

// Collectives of a step before they are written as halves, which overlap_collectives does: no device computes
// these. The parts of a tensor have equal shapes; their elements, in the order of the ranks along an axis,
// are those of the whole in row-major order. What the parts have beyond them is zero.

/// What the ranks do with a tensor that all of them have.
enum class Work {
  shared,   ///< each does a part of it: its gradients are added up over the ranks
  repeated  ///< all do the same, and have the same gradients
};

/// The parts of all ranks, floating point -> the whole.
class AllGather final : public Operation {
 public:
  enum : size_t { kPart, kInputs };
  enum : size_t { kWhole };

  AllGather(Along ranks, Shape shape, Work with_whole = Work::shared)
      : along(ranks), whole(std::move(shape)), work(with_whole) {}
  std::string_view name() const override { return "all_gather"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  /// Products share work: they read the low type, which then travels.
  InputType input_type(size_t) const override {
    return work == Work::shared ? InputType::low : InputType::widest;
  }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }

  const Along along;
  const Shape whole;
  const Work work;
};

/// The tensors of all ranks, f32 and of one shape -> this rank's part of their sum.
class ReduceScatter final : public Operation {
 public:
  enum : size_t { kWhole, kInputs };
  enum : size_t { kPart };

  ReduceScatter(Along ranks, Shape shape) : along(ranks), part(std::move(shape)) {}
  std::string_view name() const override { return "reduce_scatter"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }

  const Along along;
  const Shape part;
};

/// The tensors of all ranks, f32 and of one shape -> their sum.
class AllReduce final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kSum };

  explicit AllReduce(Along ranks) : along(ranks) {}
  std::string_view name() const override { return "all_reduce"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }

  const Along along;
};

/// Starts to gather tensors from the ranks' parts.
class AllGatherStart final : public CollectiveStart {
 public:
  AllGatherStart(int64_t its_number, Axis of, std::vector<Shape> shapes)
      : CollectiveStart(its_number, of), wholes(std::move(shapes)) {}
  std::string_view name() const override { return "all_gather_start"; }
  /// The parts, floating point -> the wholes.
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t, size_t) const override { return false; }

  const std::vector<Shape> wholes;
};

/// Starts to add tensors up in parts.
class ReduceScatterStart final : public CollectiveStart {
 public:
  ReduceScatterStart(int64_t its_number, Axis of, std::vector<Shape> shapes)
      : CollectiveStart(its_number, of), parts(std::move(shapes)) {}
  std::string_view name() const override { return "reduce_scatter_start"; }
  /// f32 -> this rank's parts of the sums.
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t, size_t) const override { return false; }

  const std::vector<Shape> parts;
};

}  // namespace trainer
