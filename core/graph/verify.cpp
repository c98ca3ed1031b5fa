// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <numeric>
#include <stdexcept>

#include "core/graph/operation.h"
#include "core/graph/ops/assign.h"

namespace trainer {
namespace {

/// Walks one entry in order and remembers what is defined and what was assigned.
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
    for (const NamedTensor& output : entry_.outputs) require_defined(output.tensor, "output " + output.name);
  }

 private:
  void check(const Node& node) {
    const std::string what = fmt::format("{} ({})", node.op->name(), node.origin.path);
    const bool assigns = dynamic_cast<const Assign*>(node.op.get()) != nullptr;
    for (const TensorId id : node.inputs) {
      if (id == kNone) continue;
      require_defined(id, what);
      if (assigned_[static_cast<size_t>(viewed(id))]) fail(what + " uses a state after it was assigned");
      const auto& rank = program_.tensor(id).rank;
      if (rank && rank != only_rank(program_.tensors, node)) fail(what + " uses what two ranks hold");
    }
    const std::vector<TensorSpec> outputs = node.op->infer(specs_of(program_.tensors, node.inputs));
    if (outputs.size() != node.outputs.size()) fail(what + " has the wrong number of outputs");
    for (size_t i = 0; i < outputs.size(); ++i) define(node.outputs[i], outputs[i], what);
    if (node.op->is_view()) viewed_[static_cast<size_t>(node.outputs[0])] = viewed(node.inputs[0]);
    if (!assigns) return;
    if (!is_persistent(program_.tensor(node.inputs[0]).role))
      fail(what + " assigns to what does not persist");
    assigned_[static_cast<size_t>(node.inputs[0])] = true;
  }

  void define(TensorId id, const TensorSpec& inferred, const std::string& what) {
    if (id == kNone) return;
    if (defined_[static_cast<size_t>(id)]) fail(what + " defines a tensor that already has a value");
    if (program_.spec(id) != inferred) fail(what + " has an output of another shape than it infers");
    defined_[static_cast<size_t>(id)] = true;
  }

  void require_defined(TensorId id, const std::string& what) const {
    if (!defined_[static_cast<size_t>(id)]) fail(what + " uses a tensor before it has a value");
  }

  TensorId viewed(TensorId id) const { return viewed_[static_cast<size_t>(id)]; }

  [[noreturn]] void fail(const std::string& text) const {
    throw std::logic_error(fmt::format("program is broken, entry {}: {}", entry_.name, text));
  }

  const Program& program_;
  const Entry& entry_;
  std::vector<bool> defined_, assigned_;
  std::vector<TensorId> viewed_;  ///< in whose memory each tensor lies
};

}  // namespace

void verify(const Program& program) {
  for (const Entry& entry : program.entries) EntryCheck(program, entry).run();
}

}  // namespace trainer
