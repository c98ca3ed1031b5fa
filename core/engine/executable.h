// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/engine/device.h"
#include "core/engine/plan.h"

namespace trainer {

/// Seconds spent in the nodes of each phase of one run.
struct PhaseSeconds {
  std::array<double, 3> seconds{};  ///< by Phase
  double& operator[](Phase phase) { return seconds[static_cast<size_t>(phase)]; }
  double operator[](Phase phase) const { return seconds[static_cast<size_t>(phase)]; }
  void add(const PhaseSeconds& other);
};

/// Called for each node that ran, with the steady clock's seconds before and after.
using NodeObserver = std::function<void(const PlannedNode& node, double begin, double end)>;

/// A plan with its memory and kernels: executes an entry's nodes in order, or replays the graph that the
/// device captured of an earlier execution. After construction and the first runs nothing is allocated.
class Executable {
 public:
  /// Keeps a reference to the device that the plan was made for; with `replay` false every run executes the
  /// nodes. Throws Error (exit 71) if the device has not enough memory.
  Executable(Plan plan, Device& device, bool replay = true);

  const Plan& plan() const { return plan_; }
  Device& device() const { return device_; }

  /// Position of an entry point, for run().
  size_t entry(std::string_view name) const;
  /// The input or persistent tensor of that name, or kNone.
  TensorId tensor(std::string_view name) const;

  /// Points an input at memory that the device can read; it must stay until the next run is done.
  void bind(TensorId input, void* data);

  /// Runs the entry `prepare`, if there is one, on which all others rely; call it once, when everything that
  /// persists has its value. `give` writes a parameter that only this entry reads (Placement::is_transient):
  /// it is called for each right before its first use, since these share their memory with each other.
  void prepare(const std::function<void(TensorId)>& give);

  /// Enqueues an entry's work; with a stopwatch, a small number from 0 on, measures its phases too.
  void run(size_t entry, std::optional<size_t> stopwatch = {});
  /// Of the last run of an entry with that stopwatch, which must be done.
  PhaseSeconds phases(size_t entry, size_t stopwatch) const;

  /// Calls `warn` if the device captures runs as slower graphs than it should, and if it fails to capture
  /// one: this run and all later ones then execute the nodes. Without a `warn`, run() throws the device's
  /// error.
  void on_warning(Device::Warn warn) { warn_ = std::move(warn); }

  /// From now on the device finishes each node before the next one starts, so that each can be timed; an
  /// empty observer ends that.
  void observe(NodeObserver observer) { observer_ = std::move(observer); }

  /// A tensor's memory on the device; null if another rank holds it.
  void* address(TensorId id) const { return slots_[static_cast<size_t>(id)]; }
  /// Copies bytes of a tensor as they are stored, from byte `offset` on.
  void copy_out(TensorId id, int64_t offset, std::span<std::byte> bytes) const;
  void copy_in(TensorId id, int64_t offset, std::span<const std::byte> bytes);
  /// A persistent tensor's elements in row-major order, whatever its layout, as float, double, int32_t or
  /// uint8_t: see from_stored and to_stored. Of a tensor in parts, this rank's.
  template <class T = float>
  std::vector<T> read(TensorId id) const;
  template <class T>
  void write(TensorId id, const std::vector<T>& values);
  /// The same with one number for all elements.
  void fill(TensorId id, double value);

  /// Everything that persists, in the device's memory.
  std::span<std::byte> persistent() const {
    return {persistent_.data(), static_cast<size_t>(persistent_.bytes())};
  }
  /// Memory with no content that outlives a run; tests fill it with NaN.
  std::span<std::byte> scratch() const { return {scratch_.data(), static_cast<size_t>(scratch_.bytes())}; }

  int64_t allocated_bytes() const { return persistent_.bytes() + scratch_.bytes(); }

 private:
  struct Step {
    std::unique_ptr<Kernel> kernel;
    const PlannedNode* node;
  };
  /// An execution as the device captured it, with the inputs that were bound then.
  struct CapturedGraph {
    std::vector<void*> inputs;
    const Stopwatch* stopwatch;
    std::unique_ptr<Kernel> kernel;
  };
  struct CompiledEntry {
    std::vector<Step> steps;
    std::vector<size_t> phase_ends;  ///< number of steps up to the end of each phase
    std::vector<std::unique_ptr<Stopwatch>> stopwatches;
    std::vector<CapturedGraph> graphs;
    bool has_run = false;
  };
  std::unique_ptr<Kernel> compile(const PlannedNode& planned, size_t workspace_slot) const;
  CompiledEntry compile(const PlannedEntry& entry, size_t workspace_slot);
  void execute(const CompiledEntry& entry, Stopwatch* stopwatch);
  void run_observed(const Step& step);
  Kernel* captured(CompiledEntry& entry, Stopwatch* stopwatch);
  std::unique_ptr<Kernel> capture(const CompiledEntry& entry, Stopwatch* stopwatch);

  Plan plan_;
  Device& device_;
  Buffer persistent_, scratch_;
  std::vector<void*>
      slots_;  ///< by tensor, then one per node's workspace; never resized once kernels hold them
  std::vector<std::pair<TensorId, TensorId>> input_views_;  ///< (view, input)
  std::unordered_map<std::string_view, TensorId> by_name_;  ///< names are those in plan_
  std::vector<TensorId> inputs_;
  std::vector<CompiledEntry> entries_;
  bool replay_;
  Device::Warn warn_;
  NodeObserver observer_;
};

/// The number of threads that draw initial values, which do not depend on it.
struct DrawingThreads {
  int64_t count = 1;
};

/// Gives a persistent tensor its initial value: a parameter's from (seed, name, element), others' as stated.
void initialize(Executable& executable, TensorId id, uint64_t seed, DrawingThreads threads = {});
/// Initialises every persistent tensor that has memory here, and runs the entry `prepare` if there is one.
void initialize(Executable& executable, uint64_t seed, DrawingThreads threads = {});

}  // namespace trainer
