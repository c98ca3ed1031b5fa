// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <numeric>
#include <stdexcept>

#include "core/graph/operation.h"
#include "core/graph/ops/assign.h"

namespace trainer {
namespace {

/// Traverses one entry in order and remembers the defined and the assigned tensors.
class EntryCheck {
 public:
  EntryCheck(const Program& program, const Entry& entry)
      : program_(program),
        entry_(entry),
        defined_(program.tensors.size(), false),
        assigned_(program.tensors.size(), false),
        viewed_(program.tensors.size()) {
    std::iota(viewed_.begin(), viewed_.end(), TensorId{0});
    for (size_t i = 0; i < program.tensors.size(); ++i) {
      const Role role = program.tensors[i].role;
      defined_[i] = is_from_outside(role) || is_persistent(role);
    }
  }

  void run() {
    for (const Node& node : entry_.nodes) check(node);
    for (const NamedTensor& output : entry_.outputs) {
      if (!is_defined(output.tensor)) fail_in("output " + output.name, "uses a tensor before it has a value");
    }
  }

 private:
  void check(const Node& node) {
    node_ = &node;
    const bool assigns = dynamic_cast<const Assign*>(node.op.get()) != nullptr;
    for (const TensorId id : node.inputs) {
      if (id == kNone) continue;
      if (!is_defined(id)) fail("uses a tensor before it has a value");
      if (assigned_[static_cast<size_t>(viewed(id))]) fail("uses a state after it was assigned");
      const auto& rank = program_.tensor(id).rank;
      if (rank && rank != only_rank(program_.tensors, node)) fail("uses tensors of two ranks");
    }
    if (node.op->input_count().value_or(node.inputs.size()) != node.inputs.size())
      fail("has the wrong number of inputs");
    const std::vector<TensorSpec> outputs = node.op->infer(specs_of(program_.tensors, node.inputs));
    if (outputs.size() != node.outputs.size()) fail("has the wrong number of outputs");
    for (size_t i = 0; i < outputs.size(); ++i) define(node.outputs[i], outputs[i]);
    if (node.op->is_view()) viewed_[static_cast<size_t>(node.outputs[0])] = viewed(node.inputs[0]);
    if (!assigns) return;
    if (!is_persistent(program_.tensor(node.inputs[Assign::kState]).role))
      fail("assigns to a tensor that does not persist");
    assigned_[static_cast<size_t>(node.inputs[Assign::kState])] = true;
  }

  void define(TensorId id, const TensorSpec& inferred) {
    if (id == kNone) return;
    if (defined_[static_cast<size_t>(id)]) fail("defines a tensor that already has a value");
    if (program_.spec(id) != inferred) fail("has an output of another shape than it infers");
    defined_[static_cast<size_t>(id)] = true;
  }

  bool is_defined(TensorId id) const { return defined_[static_cast<size_t>(id)]; }

  TensorId viewed(TensorId id) const { return viewed_[static_cast<size_t>(id)]; }

  [[noreturn]] void fail(const std::string& problem) const {
    fail_in(fmt::format("{} ({})", node_->op->name(), node_->origin.path), problem);
  }
  [[noreturn]] void fail_in(const std::string& what, const std::string& problem) const {
    throw std::logic_error(fmt::format("program is broken, entry {}: {} {}", entry_.name, what, problem));
  }

  const Program& program_;
  const Entry& entry_;
  const Node* node_ = nullptr;  ///< that is checked
  std::vector<bool> defined_, assigned_;
  std::vector<TensorId> viewed_;  ///< the owner of each tensor's memory
};

}  // namespace

void verify(const Program& program) {
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    const std::string& name = program.tensors[id].name;
    if (!name.empty() && program.find(name) != static_cast<TensorId>(id))
      throw std::logic_error(fmt::format("program is broken: the name {} is not its tensor's alone", name));
  }
  for (const Entry& entry : program.entries) EntryCheck(program, entry).run();
}

}  // namespace trainer
