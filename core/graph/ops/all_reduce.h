// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// One half of a collective over any number of tensors (f32), whose outputs are like its inputs. Only the
/// second half may read the outputs of the first. Every rank starts the same collectives in the same order. A
/// program for one process has none.
class CollectiveOperation : public Operation {
 public:
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool in_place(size_t input, size_t output) const override { return input == output; }
  InputRange in_place_inputs(size_t output, size_t) const override { return {output, output + 1}; }
};

/// Starts to add up each tensor over all ranks. `bucket` is unique in an entry.
class AllReduceStart final : public CollectiveOperation {
 public:
  explicit AllReduceStart(int64_t number) : bucket(number) {}
  std::string_view name() const override { return "all_reduce_start"; }
  void describe(AttributeVisitor& visit) const override { visit("bucket", bucket); }

  const int64_t bucket;
};

/// Gives the sums, bitwise identical on every rank.
class AllReduceDone final : public CollectiveOperation {
 public:
  explicit AllReduceDone(int64_t number) : bucket(number) {}
  std::string_view name() const override { return "all_reduce_done"; }
  void describe(AttributeVisitor& visit) const override { visit("bucket", bucket); }

  const int64_t bucket;
};

/// Starts to give every rank the tensors of rank `root`.
class BroadcastStart final : public CollectiveOperation {
 public:
  explicit BroadcastStart(int64_t rank) : root(rank) {}
  std::string_view name() const override { return "broadcast_start"; }
  void describe(AttributeVisitor& visit) const override { visit("root", root); }

  const int64_t root;
};

/// Gives the tensors of rank `root`.
class BroadcastDone final : public CollectiveOperation {
 public:
  explicit BroadcastDone(int64_t rank) : root(rank) {}
  std::string_view name() const override { return "broadcast_done"; }
  void describe(AttributeVisitor& visit) const override { visit("root", root); }

  const int64_t root;
};

/// x -> x * decay^(ranks - 1 - rank). The ranks' micro-batches count in the order of the ranks: the
/// statistics of an earlier one decay once for each later one.
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
