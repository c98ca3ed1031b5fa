// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/ops/all_reduce.h"

namespace trainer {

// Tensors that go from one stage of a pipeline to another.

/// x of the stage `from` -> x in the stage `to`, of any type. Stands in the program of all stages; own_stage
/// takes it out.
class Exchange final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  Exchange(int64_t first, int64_t second) : from(first), to(second) {}
  std::string_view name() const override { return "exchange"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  /// The other stage sends it once.
  bool may_run_again() const override { return false; }
  /// Goes back the same way.
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }

  const int64_t from, to;
};

/// What comes from another stage, before the schedule of a step says when.
class Receive final : public Operation {
 public:
  enum : size_t { kInputs };
  enum : size_t { kY };

  Receive(size_t its_route, TensorSpec what) : route(its_route), spec(std::move(what)) {}
  std::string_view name() const override { return "receive"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }

  const size_t route;  ///< Program::routes
  const TensorSpec spec;
};

/// The other end of a message: a position along Axis::pipeline. Messages between two ranks that have the same
/// number arrive in the order in which they were sent.
struct Peer {
  int64_t position = 0;
  int64_t number = 0;
  bool operator==(const Peer&) const = default;
};

/// Starts to send the inputs, any types, and to receive the outputs.
class ExchangeStart final : public CollectiveStart {
 public:
  struct Received {
    Peer from;
    TensorSpec spec;
  };
  ExchangeStart(int64_t its_number, std::vector<Peer> sent, std::vector<Received> received)
      : CollectiveStart(its_number, Axis::pipeline), to(std::move(sent)), from(std::move(received)) {}
  std::string_view name() const override { return "exchange_start"; }
  std::optional<size_t> input_count() const override { return to.size(); }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t, size_t) const override { return false; }
  InputRange in_place_inputs(size_t, size_t) const override { return {}; }

  const std::vector<Peer> to;        ///< of each input
  const std::vector<Received> from;  ///< of each output
};

}  // namespace trainer
