// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/precision.h"
#include "core/engine/arena.h"
#include "core/engine/device_rates.h"
#include "core/engine/layout.h"
#include "core/graph/operation.h"

namespace trainer {

/// One use of an operation, as a backend sees it. Absent optional inputs and unwanted outputs have empty
/// shapes.
struct OpContext {
  const Operation& op;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::string label = {};  ///< "conv2d model.layers[4]" for profilers; only set while a node is compiled
  /// Whether the entry `prepare` makes the node's weights for it alone, so that they may have any form. Only
  /// set while an implementation is chosen.
  bool prepared = false;

  bool has_input(size_t i) const { return i < inputs.size() && is_given(inputs[i]); }
  /// Whether this output exists and is needed.
  bool has_output(size_t i) const { return i < outputs.size() && is_given(outputs[i]); }
};

/// How a backend runs one node: layouts of inputs and outputs, implementation, workspace. It holds every
/// decision; `Device::compile` adds none.
struct Choice {
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
  std::string implementation;
  std::string algorithm;  ///< if an implementation offers several
  int64_t workspace_bytes = 0;
  bool workspace_is_bound = false;  ///< an upper bound: the real size is known on the device only

  // The cost of one run, for planners that have rates().
  int kernels = 1;            ///< that it starts, copies included; perhaps fewer if it works in place
  int64_t again_bytes = 0;    ///< that it moves beside each input and output once; below 0 if it picks rows
  bool tensor_cores = false;  ///< its products run on them
};

/// Layout of each input so far; nullopt if a persistent tensor's is still open.
using OpenLayouts = std::vector<std::optional<Layout>>;

/// Facts that a later process reads. The session adds the device's name.
namespace fact_name {
constexpr const char* kDevice = "device";
constexpr const char* kThreads = "threads";
constexpr const char* kRanks = "ranks";  ///< only if there are several
}  // namespace fact_name

/// Half of a backend: whether, how and in what memory a device runs operations. It needs no device: a GPU
/// that is only described has a planner too.
class Planner {
 public:
  virtual ~Planner() = default;

  virtual std::string_view name() const = 0;
  /// Sets the run's precision, once, before anything is planned. Returns nothing, or the reason why the
  /// device does not support it, with an alternative.
  virtual std::optional<std::string> set_precision(Precision precision);
  /// The reason why this operation cannot run here, or nothing. Called before anything is planned.
  virtual std::optional<std::string> why_not(const OpContext& context) const = 0;
  virtual Choice select(const OpContext& context, const OpenLayouts& inputs) const = 0;
  /// Bytes of workspace that select() would choose without timing; nothing if the operation cannot
  /// run. Passes use it so that their decisions do not depend on a measurement. Known for convolutions on a
  /// GPU only.
  virtual std::optional<int64_t> untimed_workspace(const OpContext& /*context*/) const {
    return std::nullopt;
  }
  /// How to convert layout `from` of the input to layout `to` of the output. A cast may have two types; it is
  /// passed only if the layouts differ.
  virtual Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) const = 0;

  /// Whether the device runs asynchronously and in memory of its own.
  virtual bool is_async() const { return false; }
  /// Bytes of one stored element; the reference backend stores floating types as double.
  virtual int64_t element_bytes(DType dtype) const { return bytes_per_element(dtype); }
  /// A workspace's address must be a multiple of this.
  virtual int64_t workspace_alignment() const { return kArenaAlignment; }
  /// Bytes that a program may use on the device.
  virtual int64_t memory_bytes() const = 0;
  /// What keeps memory_bytes() below all that the device has, for messages: "cgroup"; "" for nothing.
  virtual std::string memory_limit() const { return ""; }
  /// The number of ranks that share the device's memory if this host has `ranks`.
  virtual int64_t ranks_on_device(int64_t ranks) const { return ranks; }

  /// The rates for predicting times; nothing if they are unknown.
  virtual std::optional<DeviceRates> rates() const { return std::nullopt; }

  /// Notes for the plan's readers, a sentence each.
  virtual std::vector<std::string> remarks() const { return {}; }
  /// Facts on which bitwise results depend besides the recipe: versions of libraries, processor, threads.
  virtual std::map<std::string, std::string> facts() const { return {}; }
};

}  // namespace trainer
