// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/engine/plan.h"

namespace trainer {

/// Seconds spent in the nodes of each phase of one run.
struct PhaseSeconds {
  std::array<double, 3> seconds{};  ///< by Phase
  double& operator[](Phase phase) { return seconds[static_cast<size_t>(phase)]; }
  double operator[](Phase phase) const { return seconds[static_cast<size_t>(phase)]; }
  void add(const PhaseSeconds& other);
};

/// Told of each node that ran, with the steady clock's seconds before and after.
using NodeObserver = std::function<void(const PlannedNode& node, double begin, double end)>;

/// A plan with its memory and kernels: walks an entry's nodes in order. After construction nothing is
/// allocated.
class Executable {
 public:
  /// Keeps a reference to the backend. Throws Error (exit 71) where the device has not enough memory.
  Executable(Plan plan, Backend& backend);

  const Plan& plan() const { return plan_; }
  Backend& backend() { return backend_; }

  /// Position of an entry point, for run().
  size_t entry(std::string_view name) const;
  TensorId tensor(std::string_view name) const { return plan_.find(name); }

  /// Points an input at memory that the backend can read; it must stay until the next run ends.
  void bind(TensorId input, void* data);

  PhaseSeconds run(size_t entry);

  /// From now on the device finishes each node before the next one starts, so that each can be timed; an
  /// empty observer ends that.
  void observe(NodeObserver observer) { observer_ = std::move(observer); }

  /// A tensor's memory: for tests, and for outputs on the CPU.
  void* address(TensorId id) const { return slots_[static_cast<size_t>(id)]; }
  /// Value of a (1)-shaped output of the last run of this entry.
  double scalar(size_t entry, std::string_view output) const;

  /// A persistent tensor's elements in row-major order, whatever its layout.
  std::vector<float> read(TensorId id) const;
  void write(TensorId id, const std::vector<float>& values);

  /// What no run leaves anything in for the next: tests fill it with NaN.
  std::span<std::byte> scratch() const { return {scratch_.data(), static_cast<size_t>(scratch_.bytes())}; }

  int64_t allocated_bytes() const { return persistent_.bytes() + scratch_.bytes(); }

 private:
  struct Step {
    std::unique_ptr<Kernel> kernel;
    const PlannedNode* node;
  };
  std::unique_ptr<Kernel> compile(const PlannedNode& planned, size_t workspace_slot) const;
  void run_observed(const Step& step);

  Plan plan_;
  Backend& backend_;
  Buffer persistent_, scratch_;
  std::vector<void*>
      slots_;  ///< by tensor, then one per node's workspace; never resized once kernels hold them
  std::vector<std::pair<TensorId, TensorId>> input_views_;  ///< (view, input)
  std::vector<std::vector<Step>> entries_;
  NodeObserver observer_;
};

/// Gives every persistent tensor its first value: parameters from (seed, name, element), others as they
/// state.
void initialize(Executable& executable, uint64_t seed);

}  // namespace trainer
