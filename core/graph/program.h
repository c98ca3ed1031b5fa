// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/base/shape.h"
#include "core/graph/part.h"

namespace trainer {

class Operation;

/// Index into Program::tensors.
using TensorId = int32_t;
constexpr TensorId kNone = -1;

/// Two different tensors of one program have this name.
class NameClash : public std::logic_error {
 public:
  explicit NameClash(std::string name);
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

struct TensorSpec {
  Shape shape;
  DType dtype = DType::f32;
  bool operator==(const TensorSpec&) const = default;
};

/// Whether an input is present, or an output is needed.
inline bool is_given(const TensorSpec& spec) {
  return !spec.shape.empty();
}

/// The purpose of a tensor. These persist across entry points: parameters, optimizer (moments, the scale of
/// the loss), gradient sums (of micro-batches), what is derived from parameters (their casts in each step, or
/// weights prepared once), state (counters, statistics), caches (of a sequence's tokens so far) and
/// constants. Inputs come from outside, and so do samples, once for all runs. Activations and gradients exist
/// within one run of an entry.
enum class Role {
  input,
  samples,
  parameter,
  optimizer,
  gradient_sum,
  derived,
  state,
  cache,
  constant,
  activation,
  gradient
};
std::string_view to_string(Role role);
constexpr bool is_persistent(Role role) {
  return role == Role::parameter || role == Role::optimizer || role == Role::gradient_sum ||
         role == Role::derived || role == Role::state || role == Role::cache || role == Role::constant;
}

/// Whether steps pass it on to later ones: checkpoints hold these. A step writes the others before it reads
/// them, or never.
constexpr bool outlives_step(Role role) {
  return is_persistent(role) && role != Role::constant && role != Role::gradient_sum && role != Role::derived;
}

constexpr bool is_from_outside(Role role) {
  return role == Role::input || role == Role::samples;
}

/// The first value of a persistent tensor: `fill` everywhere; uniform in [low, high); normal; normal within
/// two standard deviations; or the table.
struct Initial {
  enum class Kind { fill, uniform, normal, truncated_normal, table };
  Kind kind = Kind::fill;
  double a = 0;  ///< fill: the value; uniform: low; normal: mean
  double b = 0;  ///< uniform: high; normal: standard deviation
  std::vector<double> table;
};

/// The meaning of a tensor's integers: scale * (integer - zero_point).
struct Quantization {
  double scale = 1;
  int64_t zero_point = 0;
  bool operator==(const Quantization&) const = default;
};

struct Tensor {
  std::string name;  ///< persistent tensors and inputs: unique; others: empty
  TensorSpec spec;
  Role role = Role::activation;
  Initial initial;
  bool frozen = false;  ///< parameters: not changed by training
  std::optional<Quantization> quantization = {};
  std::optional<int64_t> rank = {};  ///< persistent: of several ranks the only one that holds it
  /// Persistent: a rank holds this part, whose shape is `spec`. Name and first value are those of the whole.
  std::optional<Part> part = {};
  /// Persistent: the positions along Axis::pipeline that hold it, if not all do.
  std::vector<int64_t> stages = {};
};

/// The shape that users and files know.
inline const Shape& whole_shape(const Tensor& tensor) {
  return tensor.part ? tensor.part->whole : tensor.spec.shape;
}

/// Whether no rank need hold all of it.
inline bool is_divided(const Tensor& tensor) {
  return tensor.rank || tensor.part;
}

/// Whether each rank along Axis::shards holds a part of it.
inline bool is_sharded(const Tensor& tensor) {
  return tensor.part && tensor.part->is_sharded;
}

/// The part of a step that a node belongs to, for timing.
enum class Phase { forward, backward, update };
std::string_view to_string(Phase phase);

/// One use of an operation.
struct Node {
  std::shared_ptr<const Operation> op;
  std::vector<TensorId> inputs;   ///< kNone for an optional input that is absent
  std::vector<TensorId> outputs;  ///< kNone for an output that is not needed
  Origin origin;
  Phase phase = Phase::forward;
  bool again = false;  ///< recomputed, to save memory in between
};

struct NamedTensor {
  std::string name;
  TensorId tensor = kNone;
};
/// The tensor of that name, or kNone.
TensorId tensor_named(std::span<const NamedTensor> tensors, std::string_view name);

struct ParameterGradient {
  TensorId parameter = kNone;
  TensorId gradient = kNone;
};

/// A tensor that goes from one stage of a pipeline to another in each micro-batch, made by the forward or the
/// backward part.
struct Route {
  int64_t from = 0, to = 0;
  bool is_backward = false;
  bool operator==(const Route&) const = default;
};

/// A list of nodes in the order in which they run; single assignment, except that `assign` changes a state.
struct Entry {
  explicit Entry(std::string called) : name(std::move(called)) {}
  /// The output of that name, or kNone.
  TensorId output(std::string_view wanted) const { return tensor_named(outputs, wanted); }

  std::string name;
  std::vector<Node> nodes;
  std::vector<NamedTensor> outputs;          ///< outputs that a caller may read after a run
  std::vector<ParameterGradient> gradients;  ///< filled by autodiff, consumed by the update
  std::vector<Route> routes = {};            ///< of the whole pipeline, once the entry is one stage's
};

/// What one stage of a pipeline has to know of the others too.
struct WholeNetwork {
  std::vector<int64_t> stages_of_layers;
  std::vector<std::string> parameters;  ///< in the network's order
  std::set<std::string> tables_and_last_layers;
  uint64_t checksum = 0;  ///< of the program before the other stages were taken out
};

/// A parameter that training prunes, and its dimension of input features.
struct PrunedWeight {
  std::string name;
  size_t dimension = 0;
};

/// Named entry points over one set of persistent tensors. Layers write it, passes transform it.
struct Program {
  std::vector<Tensor> tensors;
  std::vector<Entry> entries;
  /// By the names given to `add` and `rename`, which alone write here; a place holds as long as the tensor
  /// has that name.
  std::map<std::string, TensorId, std::less<>> by_name = {};
  /// For the program's readers, a sentence each: what passes could not do, and why.
  std::vector<std::string> remarks = {};
  /// Of ranks that share operations the share of the forward part that each does as a whole.
  double repeated = 0;
  /// Of the ranks that it is for, and the stage of the pipeline that it computes.
  Mesh mesh = {};
  int64_t stage = 0;
  std::optional<WholeNetwork> whole = {};  ///< of a pipeline
  std::vector<PrunedWeight> pruned = {};

  const TensorSpec& spec(TensorId id) const { return tensors[static_cast<size_t>(id)].spec; }
  const Tensor& tensor(TensorId id) const { return tensors[static_cast<size_t>(id)]; }
  Entry& entry(std::string_view name);
  const Entry* find_entry(std::string_view name) const;

  /// The input or persistent tensor of that name, or kNone.
  TensorId find(std::string_view name) const;
  /// Appends a tensor. Names are given only here, so that `find` has them all.
  TensorId add(Tensor tensor);
  /// The tensor of that name, made on first use. Throws NameClash if a later use has another shape, type or
  /// role.
  TensorId persistent(const std::string& name, const TensorSpec& spec, Role role, Initial initial);
  TensorId input(const std::string& name, const TensorSpec& spec);
  /// Takes a tensor that nothing reads out of those with a name and memory.
  void forget(TensorId id);
  /// The name may be a forgotten tensor's.
  void rename(TensorId id, std::string name);
  /// A persistent tensor of the shape and type of another one, and cut as it is, with its name and this
  /// suffix.
  TensorId beside(TensorId of, std::string_view suffix, Role role);
};

/// Of several ranks the only one that runs a node: that which holds a tensor it reads. Nothing: all do.
std::optional<int64_t> only_rank(std::span<const Tensor> tensors, const Node& node);

/// The tensors' types and shapes; an absent one has an empty shape.
std::vector<TensorSpec> specs_of(std::span<const Tensor> tensors, std::span<const TensorId> ids);

struct NodeSpecs {
  std::vector<TensorSpec> inputs, outputs;
};
NodeSpecs node_specs(const Program& program, const Node& node);

/// Stable text: one line per tensor that has a name, then one line per node. Tests compare it.
std::string to_text(const Program& program);

/// Checks our own invariants: tensors are defined once and before use, shapes match the operations' rules,
/// nothing reads a state after it was assigned, names find their tensors. Throws std::logic_error; a failure
/// is a bug in a pass.
void verify(const Program& program);

}  // namespace trainer
