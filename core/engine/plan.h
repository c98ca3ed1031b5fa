// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/engine/planner.h"
#include "core/engine/stored.h"
#include "core/graph/program.h"

namespace trainer {

/// The allocation that a tensor is in. Inputs are in memory that the caller binds. A tensor that is
/// `elsewhere` is held by another rank. A parameter that only the entry `prepare` reads is in scratch memory,
/// or where a tensor is made of it in place.
enum class Region { none, persistent, scratch, input, elsewhere };

struct Placement {
  Region region = Region::none;
  int64_t offset = 0;  ///< bytes from the region's start
  int64_t bytes = 0;
  int64_t element_bytes = 0;  ///< of one stored element
  Layout layout;
  TensorId viewed_input = kNone;  ///< in Region::input: the input that shares its memory with this tensor
  bool is_transient = false;      ///< a parameter that has memory only while `prepare` uses it
};

struct PlannedNode {
  Node node;
  Choice choice;
  bool runs = true;              ///< false for views, assigns that happen in place, and nodes of another rank
  int64_t workspace_offset = 0;  ///< in the scratch region
  /// Parameters that have memory only from here on until their last use: see Executable::prepare.
  std::vector<TensorId> given = {};
};

struct PlannedEntry {
  std::string name;
  std::vector<PlannedNode> nodes;
  std::vector<NamedTensor> outputs;
  int64_t scratch_bytes = 0;                    ///< size required by the entry's offsets
  int64_t live_bytes = 0;                       ///< largest sum of live tensors: no arrangement needs less
  std::map<std::string, int64_t> peak_by_kind;  ///< that sum by kind: activations, gradients, workspace

  /// The output of that name, or kNone.
  TensorId output(std::string_view wanted) const { return tensor_named(outputs, wanted); }
};

/// A node's name for people who watch a run: "conv2d model.layers[4].conv2d".
std::string label_of(const Node& node);

/// A program with all decisions made: implementations, layouts, reorders, addresses. Immutable once made. Its
/// memory is exact: an Executable allocates these bytes.
struct Plan {
  std::vector<Tensor> tensors;  ///< the program's, then those that reorders add
  std::vector<Placement> placements;
  std::vector<PlannedEntry> entries;
  int64_t rank = 0;       ///< the rank that it was made for
  bool is_async = false;  ///< for a device that runs asynchronously and in memory of its own
  int64_t persistent_bytes = 0;
  int64_t divided_bytes = 0;  ///< the first of these, of tensors that ranks divide and checkpoints hold
  int64_t scratch_bytes = 0;  ///< of the largest entry
  std::map<std::string, int64_t> persistent_by_kind;  ///< parameters, optimizer, state

  const PlannedEntry& entry(std::string_view name) const;
  bool has_entry(std::string_view name) const;
  TensorId find(std::string_view name) const;
  StoredType stored_type(TensorId id) const;
};

/// Plans all entries of `program`. Persistent layouts are chosen by the first entry that uses them, so the
/// training entry comes first. Throws Error (exit 78) with the origin of an operation that the planner
/// refuses. Ranks of one program have plans that differ only in which tensors they hold and nodes they run.
Plan make_plan(const Program& program, const Planner& planner, int64_t rank = 0);

/// Whether a workspace in it is only a bound, so that its memory is a bound too.
bool has_bounds(const Plan& plan);

/// One line per node: implementation, layouts, workspace; with rates also its kernels, bytes, FLOPs and
/// predicted time.
std::string to_text(const Plan& plan, const std::optional<DeviceRates>& rates = std::nullopt);

}  // namespace trainer
