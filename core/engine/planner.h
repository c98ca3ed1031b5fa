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

  bool has_input(size_t i) const { return i < inputs.size() && is_given(inputs[i]); }
  /// Whether somebody wants this output, which the operation may not have.
  bool has_output(size_t i) const { return i < outputs.size() && is_given(outputs[i]); }
};

/// How a backend runs one node: what layouts it takes and gives, by which implementation, in how much
/// workspace. Whatever is decided is here; `Device::compile` adds nothing to it.
struct Choice {
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
  std::string implementation;
  std::string algorithm;  ///< where an implementation offers several
  int64_t workspace_bytes = 0;
  bool workspace_is_bound = false;  ///< an upper bound: the real size is known on the device only

  // What one run costs, for planners that have rates().
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
constexpr const char* kRanks = "ranks";  ///< only where there are several
}  // namespace fact_name

/// Half of a backend: whether, how and in what memory a device runs operations. It needs no device: a GPU
/// that is only described has a planner too.
class Planner {
 public:
  virtual ~Planner() = default;

  virtual std::string_view name() const = 0;
  /// Sets the run's precision, once, before anything is planned. Returns why the device does not support it,
  /// and what to write instead, or nothing.
  virtual std::optional<std::string> set_precision(Precision precision);
  /// The reason why this operation cannot run here, or nothing. Asked before anything is planned.
  virtual std::optional<std::string> why_not(const OpContext& context) const = 0;
  virtual Choice select(const OpContext& context, const OpenLayouts& inputs) const = 0;
  /// Bytes of workspace that select() would choose if nothing is timed; nothing if the operation cannot
  /// run. What passes decide by it does not depend on a measurement. Known of convolutions on a GPU only.
  virtual std::optional<int64_t> untimed_workspace(const OpContext& /*context*/) const {
    return std::nullopt;
  }
  /// How to turn layout `from` of the input into layout `to` of the output; for a cast, which need not have
  /// one type on both sides, only where the two differ.
  virtual Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) const = 0;

  /// Whether the device runs asynchronously and in memory of its own.
  virtual bool is_async() const { return false; }
  /// Bytes of one stored element; the reference backend stores floating types as double.
  virtual int64_t element_bytes(DType dtype) const { return bytes_per_element(dtype); }
  /// What a workspace's address must be a multiple of.
  virtual int64_t workspace_alignment() const { return kArenaAlignment; }
  /// Bytes that a program may use on the device.
  virtual int64_t memory_bytes() const = 0;

  /// What times are predicted from; nothing if it is not known.
  virtual std::optional<DeviceRates> rates() const { return std::nullopt; }

  /// Notes for whoever reads the plan, a sentence each.
  virtual std::vector<std::string> remarks() const { return {}; }
  /// What a run's bits depend on beside the recipe: versions of libraries, processor, threads.
  virtual std::map<std::string, std::string> facts() const { return {}; }
};

}  // namespace trainer
