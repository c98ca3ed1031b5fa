// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// Any number of tensors (f32) -> the same: starts to add each up over all ranks. Only AllReduceDone reads
/// the outputs. Every rank starts the same sums in the same order; `bucket` is unique in an entry. A process
/// that is alone has no such operation.
class AllReduceStart final : public Operation {
 public:
  explicit AllReduceStart(int64_t number) : bucket(number) {}
  std::string_view name() const override { return "all_reduce_start"; }
  void describe(AttributeVisitor& visit) const override { visit("bucket", bucket); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool in_place(size_t input, size_t output) const override { return input == output; }
  InputRange in_place_inputs(size_t output, size_t) const override { return {output, output + 1}; }

  const int64_t bucket;
};

/// Outputs of AllReduceStart -> the sums, bitwise identical on every rank.
class AllReduceDone final : public Operation {
 public:
  explicit AllReduceDone(int64_t number) : bucket(number) {}
  std::string_view name() const override { return "all_reduce_done"; }
  void describe(AttributeVisitor& visit) const override { visit("bucket", bucket); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool in_place(size_t input, size_t output) const override { return input == output; }
  InputRange in_place_inputs(size_t output, size_t) const override { return {output, output + 1}; }

  const int64_t bucket;
};

/// Any number of tensors (f32) -> the same: starts to send each of rank `from` to all ranks. Only
/// BroadcastDone reads the outputs. Every rank starts the same ones in the same order.
class BroadcastStart final : public Operation {
 public:
  explicit BroadcastStart(int64_t rank) : from(rank) {}
  std::string_view name() const override { return "broadcast_start"; }
  void describe(AttributeVisitor& visit) const override { visit("from", from); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool in_place(size_t input, size_t output) const override { return input == output; }
  InputRange in_place_inputs(size_t output, size_t) const override { return {output, output + 1}; }

  const int64_t from;
};

/// Outputs of BroadcastStart -> the tensors of rank `from`.
class BroadcastDone final : public Operation {
 public:
  explicit BroadcastDone(int64_t rank) : from(rank) {}
  std::string_view name() const override { return "broadcast_done"; }
  void describe(AttributeVisitor& visit) const override { visit("from", from); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool in_place(size_t input, size_t output) const override { return input == output; }
  InputRange in_place_inputs(size_t output, size_t) const override { return {output, output + 1}; }

  const int64_t from;
};

/// x -> x * decay^(ranks - 1 - rank). Ranks process the micro-batches of a step in rank order: an earlier
/// rank's value would have decayed once for each later one.
class DecayByRank final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  explicit DecayByRank(double factor) : decay(factor) {}
  std::string_view name() const override { return "decay_by_rank"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override { visit("decay", decay, {.digits = 6}); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t, size_t) const override { return true; }

  const double decay;
};

}  // namespace trainer
