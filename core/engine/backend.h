// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/precision.h"
#include "core/engine/buffer.h"
#include "core/engine/layout.h"
#include "core/graph/operation.h"

namespace trainer {

/// One use of an operation, as a backend sees it. Absent optional inputs and unwanted outputs have empty
/// shapes.
struct OpContext {
  const Operation& op;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::string label =
      {};  ///< "conv2d model.layers[4]", for whoever watches; only where it is compiled to run
};

/// How a backend runs one node: what layouts it takes and gives, by which implementation, in how much
/// workspace. Whatever is decided is here; `compile` adds nothing to it.
struct Choice {
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
  std::string implementation;
  std::string algorithm;  ///< where an implementation offers several
  int64_t workspace_bytes = 0;
  bool workspace_is_bound = false;  ///< the most it may come to: what it is will be known on the device
};

/// Layout of each input so far; nullopt where a persistent tensor's is still open.
using OpenLayouts = std::vector<std::optional<Layout>>;

/// Where a node's tensors lie. A slot holds an address that may change between runs (inputs are bound to
/// whichever buffer the batch is in); absent tensors have a null slot.
struct Slots {
  std::vector<void* const*> inputs;
  std::vector<void* const*> outputs;
  void* const* workspace = nullptr;
};

/// A node made ready to run, any number of times.
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

/// Measures a device's work between points of its order.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  /// Point i is after everything put on the device so far.
  virtual void mark(size_t i) = 0;
  /// From point i to point i + 1, which the device must have passed.
  virtual double seconds(size_t i) const = 0;
};

/// How a device is doing at one moment; what it does not tell is absent.
struct DeviceReading {
  std::optional<double> utilization;  ///< 0 to 1
  std::optional<double> memory_bytes, power_w, temperature_c, clock_mhz;
  std::optional<double> energy_j;         ///< since the device was started
  std::vector<std::string> throttled_by;  ///< why it runs slower than it could
};

/// The device: its memory, and how it runs operations. Work is done in the order in which it is put on the
/// device: at once on the host, behind the caller's back, and in memory of its own, where `is_async`.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  /// The reason why this operation cannot run here, or nothing. Asked before anything is planned.
  virtual std::optional<std::string> why_not(const OpContext& context) const = 0;
  /// Says what the run computes in, once, before anything is planned. Returns the reason why that cannot be
  /// here, and what to write instead, or nothing.
  virtual std::optional<std::string> set_precision(Precision precision);
  virtual Choice select(const OpContext& context, const OpenLayouts& inputs) const = 0;
  /// How to turn layout `from` of the input into layout `to` of the output; for a cast, which need not have
  /// one type on both sides, only where the two differ.
  virtual Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) const = 0;
  virtual std::unique_ptr<Kernel> compile(const OpContext& context, const Choice& choice,
                                          const Slots& slots) const = 0;

  /// Bytes of one stored element; the reference backend stores f32 as double.
  virtual int64_t element_bytes(DType dtype) const { return bytes_per_element(dtype); }

  virtual bool is_async() const { return false; }
  /// Marks everything enqueued so far; events grow.
  virtual int64_t record_event() { return 0; }
  virtual bool query(int64_t /*event*/) { return true; }
  virtual void synchronize(int64_t /*event*/) {}
  /// For `points` points.
  virtual std::unique_ptr<Stopwatch> make_stopwatch(size_t points);
  /// What `work` puts on the device, kept to be put there again as one piece; null where that saves nothing.
  /// `work` must have run once before; it is not done now.
  virtual std::unique_ptr<Kernel> capture_graph(const std::function<void()>& /*work*/) { return nullptr; }

  /// Copies to the host, in order; `host` is from allocate_batch.
  virtual void fetch(void* host, const void* device, int64_t bytes);
  /// Copies to the device, in order, and returns when that is done; `host` is from allocate_batch.
  virtual void store(void* device, const void* host, int64_t bytes);
  /// Copies to the device beside its work, once that has passed the point `after`; whatever is put on the
  /// device later comes after the copies. Only where `is_async`: other devices read a batch where it lies.
  virtual void copy_to_device_async(std::span<const HostCopy> copies, int64_t after);

  /// Device memory, zeroed; throws Error (exit 71) with what was asked and what is free.
  virtual Buffer allocate(int64_t bytes) = 0;
  /// Host memory from which the device fetches fastest.
  virtual Buffer allocate_batch(int64_t bytes) = 0;
  /// Bytes a program may use on this device.
  virtual int64_t memory_bytes() const = 0;
  /// Asks the device; takes up to a few milliseconds.
  virtual DeviceReading read_device() const { return {}; }
  /// What the last bits of a run depend on beside the recipe: versions of libraries, processor, threads.
  virtual std::map<std::string, std::string> facts() const { return {}; }
  /// What a reader of a plan should know about it, a sentence each.
  virtual std::vector<std::string> remarks() const { return {}; }

  /// Stored elements from and to host floats, in storage order; of u8 only to the device.
  virtual void upload(void* device, const float* host, int64_t elements, DType dtype) = 0;
  virtual void download(float* host, const void* device, int64_t elements, DType dtype) = 0;
};

}  // namespace trainer
