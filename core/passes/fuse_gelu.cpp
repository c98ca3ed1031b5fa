// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>
#include <variant>

#include "core/engine/planner.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/unary.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

/// Whether the operation is gelu_tanh as Unary, or its gradient as UnaryBackward.
template <class Op>
bool is_gelu(const Operation& op) {
  const auto* unary = dynamic_cast<const Op*>(&op);
  return unary != nullptr && std::holds_alternative<elementwise::GeluTanh>(unary->function);
}

class FuseGelu {
 public:
  FuseGelu(Program& program, Entry& entry, const Planner& planner)
      : program_(program), entry_(entry), planner_(planner) {}

  void run() {
    for (size_t n = 0; n < entry_.nodes.size();) {
      const bool is_fused = fuse_forward(entry_.nodes[n]) || fuse_backward(entry_.nodes[n]);
      if (is_fused) {
        entry_.nodes.erase(entry_.nodes.begin() + static_cast<std::ptrdiff_t>(n));
      } else {
        ++n;
      }
    }
  }

 private:
  /// Takes a gelu into the linear layer before it.
  bool fuse_forward(const Node& gelu) {
    if (!is_gelu<Unary>(*gelu.op)) return false;
    Node* before = maker_as<Linear>(gelu.inputs[0]);
    if (before == nullptr) return false;
    const auto& linear = static_cast<const Linear&>(*before->op);
    if (linear.function != LinearFunction::none) return false;
    const TensorId sum = gelu.inputs[0];
    const bool keeps_sum = count_uses(program_, entry_)[static_cast<size_t>(sum)] > 1;
    return take(*before, std::make_shared<Linear>(LinearFunction::gelu_tanh, linear.transposed),
                before->inputs, {gelu.outputs[0], keeps_sum ? sum : kNone});
  }

  /// Takes a gelu's gradient into the product that makes what it reads.
  bool fuse_backward(const Node& gelu) {
    if (!is_gelu<UnaryBackward>(*gelu.op)) return false;
    Node* before = maker_as<LinearBackwardData>(gelu.inputs[0]);
    if (before == nullptr || count_uses(program_, entry_)[static_cast<size_t>(gelu.inputs[0])] > 1)
      return false;
    const auto& product = static_cast<const LinearBackwardData&>(*before->op);
    const auto place = static_cast<size_t>(before - entry_.nodes.data());
    if (product.gelu_tanh || !exists_before(entry_, place, gelu.inputs[1])) return false;
    std::vector<TensorId> inputs = before->inputs;
    inputs.push_back(gelu.inputs[1]);
    const auto fused = std::make_shared<LinearBackwardData>(product.x_shape, product.transposed, true);
    return take(*before, fused, inputs, gelu.outputs);
  }

  /// The node that makes the tensor, if it is such an operation.
  template <class Op>
  Node* maker_as(TensorId id) {
    const int maker = maker_of(entry_, id);
    if (maker < 0) return nullptr;
    Node& node = entry_.nodes[static_cast<size_t>(maker)];
    return dynamic_cast<const Op*>(node.op.get()) != nullptr ? &node : nullptr;
  }

  /// Gives the node another operation, unless the device's planner refuses that.
  bool take(Node& node, const std::shared_ptr<const Operation>& op, const std::vector<TensorId>& inputs,
            const std::vector<TensorId>& outputs) {
    const OpContext context{.op = *op,
                            .inputs = specs_of(program_.tensors, inputs),
                            .outputs = specs_of(program_.tensors, outputs)};
    if (planner_.why_not(context)) return false;
    node.op = op;
    node.inputs = inputs;
    node.outputs = outputs;
    return true;
  }

  Program& program_;
  Entry& entry_;
  const Planner& planner_;
};

}  // namespace

Pass fuse_gelu(const Planner& planner) {
  auto run = [&planner](Program& program) {
    for (Entry& entry : program.entries) FuseGelu(program, entry, planner).run();
  };
  return {
      .name = "fuse_gelu",
      .help = "compute gelu_tanh and its gradient together with the product before it, where the device can",
      .optional = true,
      .run = run};
}

std::optional<Pass> fuse_gelu_pass(const PassOptions& options) {
  const bool recomputes = options.recompute.kind != Recompute::Kind::none;
  if (options.planner == nullptr || recomputes) return std::nullopt;
  return fuse_gelu(*options.planner);
}

}  // namespace trainer
