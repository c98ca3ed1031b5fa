// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/engine/buffer.h"
#include "core/engine/device_reading.h"
#include "core/engine/planner.h"

namespace trainer {

/// Where a node's tensors are. A slot holds an address that may change between runs (inputs are bound to the
/// batch's buffer); absent tensors have a null slot.
struct Slots {
  std::vector<void* const*> inputs;
  std::vector<void* const*> outputs;
  void* const* workspace = nullptr;

  /// That of an output that may not be needed, or may not exist: nullptr then.
  void* const* output(size_t i) const { return i < outputs.size() ? outputs[i] : nullptr; }
};

/// A compiled node, which may run any number of times.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run() = 0;
};

/// A copy to the device of host memory from allocate_batch.
struct HostCopy {
  void* device = nullptr;
  const void* host = nullptr;
  int64_t bytes = 0;
};

/// Measures a device's work between marks in its order.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  /// Mark i comes after everything enqueued so far.
  virtual void mark(size_t i) = 0;
  /// From mark i to mark i + 1, which the device must have reached.
  virtual double seconds(size_t i) const = 0;
};

/// Half of a backend: memory, copies, events and kernels. Work runs in the order in which it is enqueued: on
/// the host at once, or asynchronously if the planner says `is_async`. Events are numbers that grow.
class Device {
 public:
  using Warn = std::function<void(const std::string&)>;  ///< takes a sentence for the log

  virtual ~Device() = default;

  /// Device memory, zeroed; throws Error (exit 71) with the requested and the free size.
  virtual Buffer allocate(int64_t bytes) = 0;
  /// Host memory that the device copies from and to fastest: pinned, for a GPU.
  virtual Buffer allocate_batch(int64_t bytes) = 0;

  /// The kernel of a node that the planner of this device chose for.
  virtual std::unique_ptr<Kernel> compile(const OpContext& context, const Choice& choice,
                                          const Slots& slots) const = 0;
  /// Captures the work that `work` enqueues, to be replayed as one graph; null if that saves nothing. `work`
  /// must have run once before; capturing does not run it. `warn` hears of a graph that is slower than it
  /// should be. On failure it throws Error, and the device remains usable.
  virtual std::unique_ptr<Kernel> capture_graph(const std::function<void()>& /*work*/, const Warn& /*warn*/) {
    return nullptr;
  }

  /// Records an event after everything enqueued so far.
  virtual int64_t record_event() { return 0; }
  /// Whether everything before the event is done.
  virtual bool query(int64_t /*event*/) { return true; }
  /// Waits until everything before the event is done.
  virtual void synchronize(int64_t /*event*/) {}
  virtual std::unique_ptr<Stopwatch> make_stopwatch(size_t marks);

  // Copies are in order with the other work. They move stored elements as they are: core/engine/stored.h
  // converts numbers.

  /// Returns when the copy is done; any host memory.
  virtual void copy_to_host(std::span<std::byte> host, const void* device);
  virtual void copy_to_device(void* device, std::span<const std::byte> host);
  /// Returns at once; `host` is from allocate_batch.
  virtual void copy_to_host_async(std::span<std::byte> host, const void* device);
  /// Returns at once. The copies run beside the device's work, once that has reached the event `after`;
  /// whatever is enqueued later comes after them. Asynchronous devices only: others read a batch in place.
  virtual void copy_to_device_async(std::span<const HostCopy> copies, int64_t after);

  /// For several ranks: joins their devices, so that kernels can add up over them. Every rank calls it at
  /// once, before it compiles any kernel. Throws Error (exit 69).
  virtual void join_ranks() {}

  /// Sentences for the log about what has run so far; waits for it.
  virtual std::vector<std::string> remarks() { return {}; }

  /// Queries the device; takes up to a few milliseconds.
  virtual DeviceReading read_device() const { return {}; }
  /// Which of the readings this machine does not give, each with the reason.
  virtual std::vector<std::string> missing_readings() const { return {}; }
};

}  // namespace trainer
