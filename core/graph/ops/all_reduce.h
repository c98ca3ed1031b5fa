// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/mesh.h"
#include "core/graph/operation.h"
#include "core/graph/program.h"

namespace trainer {

/// The first half of a collective over any number of tensors. Only its other half, the CollectiveDone with
/// the same number, may read its outputs. Every rank starts the same collectives in the same order. A program
/// for one process has none.
class CollectiveStart : public Operation {
 public:
  explicit CollectiveStart(int64_t its_number, Axis of = Axis::data) : number(its_number), axis(of) {}
  void describe(AttributeVisitor& visit) const override;
  /// As the inputs: f32.
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool in_place(size_t input, size_t output) const override { return input == output; }
  InputRange in_place_inputs(size_t output, size_t) const override { return {output, output + 1}; }

  const int64_t number;  ///< unique in an entry
  const Axis axis;
};

/// Starts to add up each tensor over the ranks.
class AllReduceStart final : public CollectiveStart {
 public:
  using CollectiveStart::CollectiveStart;
  std::string_view name() const override { return "all_reduce_start"; }
};

/// Starts to give every rank the tensors of rank `root`.
class BroadcastStart final : public CollectiveStart {
 public:
  BroadcastStart(int64_t its_number, int64_t rank) : CollectiveStart(its_number), root(rank) {}
  std::string_view name() const override { return "broadcast_start"; }
  void describe(AttributeVisitor& visit) const override;

  const int64_t root;
};

/// The second half: waits for the collective. Its first inputs are what was started, and become the outputs;
/// those after them are what the collective still reads.
class CollectiveDone final : public Operation {
 public:
  CollectiveDone(int64_t its_number, size_t tensors, size_t still_read = 0)
      : number(its_number), count(tensors), read(still_read) {}
  std::string_view name() const override { return "collective_done"; }
  std::optional<size_t> input_count() const override { return count + read; }
  void describe(AttributeVisitor& visit) const override { visit("number", number); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool in_place(size_t input, size_t output) const override { return input == output; }
  InputRange in_place_inputs(size_t output, size_t) const override { return {output, output + 1}; }

  const int64_t number;
  const size_t count, read;
};

/// A number that no collective of the entry has yet.
int64_t next_collective(const Entry& entry);

/// x -> x * decay^after[rank]. The ranks' micro-batches count in the order of the ranks: the statistics of an
/// earlier one decay once for each of those `after` it, along Axis::data.
class DecayByRank final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  DecayByRank(double factor, std::vector<int64_t> later) : decay(factor), after(std::move(later)) {}
  std::string_view name() const override { return "decay_by_rank"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t, size_t) const override { return true; }
  /// The factor of a rank.
  double factor(const Mesh& mesh, int64_t rank) const;

  const double decay;
  const std::vector<int64_t> after;  ///< micro-batches, by the rank's position
};

}  // namespace trainer
