// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "core/engine/planner.h"
#include "core/graph/operation.h"
#include "core/graph/ops/cast.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// Rewrites an entry, each node after the casts of its inputs; a tensor is cast once, whatever nodes read it.
class Narrowing {
 public:
  Narrowing(Program& program, Entry& entry, DType low, const Planner* planner)
      : program_(program), entry_(entry), build_(program, entry), low_(low), planner_(planner) {}

  void run() {
    std::vector<Node> nodes;
    nodes.swap(entry_.nodes);
    for (Node& node : nodes) {
      build_.set_origin(node.origin);
      build_.set_phase(node.phase);
      cast_inputs(node);
      infer_outputs(node);
      entry_.nodes.push_back(std::move(node));
    }
    for (NamedTensor& output : entry_.outputs) {
      if (is_low(dtype(output.tensor))) output.tensor = as(output.tensor, DType::f32);
    }
  }

 private:
  void cast_inputs(Node& node) {
    const DType widest = widest_of(node);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      TensorId& id = node.inputs[i];
      if (id == kNone || !is_floating(dtype(id))) continue;
      const InputType wanted = node.op->input_type(i);
      if (wanted == InputType::as_made && device_takes(node)) continue;
      id = as(id, wanted == InputType::low ? low_ : wanted == InputType::widest ? widest : DType::f32);
    }
  }

  /// Whether the device runs the node on inputs of the types that they have.
  bool device_takes(const Node& node) const {
    if (planner_ == nullptr) return false;
    OpContext context{.op = *node.op, .inputs = specs_of(program_.tensors, node.inputs), .outputs = {}};
    context.outputs = node.op->infer(context.inputs);
    return !planner_->why_not(context);
  }

  /// f32 if any of the inputs in its group is f32.
  DType widest_of(const Node& node) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorId id = node.inputs[i];
      if (id != kNone && node.op->input_type(i) == InputType::widest && dtype(id) == DType::f32)
        return DType::f32;
    }
    return low_;
  }

  TensorId as(TensorId id, DType wanted) {
    if (dtype(id) == wanted) return id;
    const auto [known, fresh] = casts_.try_emplace({id, wanted}, kNone);
    if (fresh) known->second = build_.emit<Cast>({id}, wanted);
    return known->second;
  }

  void infer_outputs(const Node& node) {
    const std::vector<TensorSpec> outputs = node.op->infer(specs_of(program_.tensors, node.inputs));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (node.outputs[i] != kNone) program_.tensors[static_cast<size_t>(node.outputs[i])].spec = outputs[i];
    }
  }

  DType dtype(TensorId id) const { return program_.spec(id).dtype; }

  Program& program_;
  Entry& entry_;
  Builder build_;
  DType low_;
  const Planner* planner_;
  std::map<std::pair<TensorId, DType>, TensorId> casts_;
};

}  // namespace

Pass mixed_precision(DType low, const Planner* planner) {
  auto run = [low, planner](Program& program) {
    // A cache stores the type that products read.
    for (Tensor& tensor : program.tensors) {
      if (tensor.role == Role::cache) tensor.spec.dtype = low;
    }
    for (Entry& entry : program.entries) Narrowing(program, entry, low, planner).run();
  };
  return {
      .name = "mixed_precision",
      .help = "compute products and the operations after them in a type of two bytes (training.precision)",
      .optional = false,
      .run = run,
      .after = {"loss"}};
}

}  // namespace trainer
