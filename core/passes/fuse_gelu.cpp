// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>
#include <variant>

#include "core/engine/planner.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/unary.h"
#include "core/passes/entry_editor.h"
#include "core/passes/table.h"

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
      : program_(program), nodes_(entry), planner_(planner) {}

  void run() {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (!fuse_forward(n)) fuse_backward(n);
    }
    nodes_.finish();
  }

 private:
  /// Moves a gelu into the linear layer before it.
  bool fuse_forward(size_t n) {
    if (!is_gelu<Unary>(*nodes_.node(n).op)) return false;
    const TensorId sum = nodes_.node(n).inputs[Unary::kX], y = nodes_.node(n).outputs[Unary::kY];
    const int before = maker_as<Linear>(sum);
    if (before == EntryEditor::kNobody) return false;
    const auto& linear = static_cast<const Linear&>(*nodes_.node(before).op);
    if (linear.function != LinearFunction::none) return false;
    const bool keeps_sum = nodes_.uses(sum) > 1;
    return take(n, before, std::make_shared<Linear>(LinearFunction::gelu_tanh, linear.transposed),
                nodes_.node(before).inputs, {y, keeps_sum ? sum : kNone});
  }

  /// Moves a gelu's gradient into the product that makes its input.
  bool fuse_backward(size_t n) {
    if (!is_gelu<UnaryBackward>(*nodes_.node(n).op)) return false;
    const TensorId dy = nodes_.node(n).inputs[UnaryBackward::kDy],
                   u = nodes_.node(n).inputs[UnaryBackward::kSaved];
    const int before = maker_as<LinearBackwardData>(dy);
    if (before == EntryEditor::kNobody || nodes_.uses(dy) > 1) return false;
    const auto& product = static_cast<const LinearBackwardData&>(*nodes_.node(before).op);
    if (product.gelu_tanh || !nodes_.exists_before(static_cast<size_t>(before), u)) return false;
    std::vector<TensorId> inputs = nodes_.node(before).inputs;
    inputs[LinearBackwardData::kKept] = u;
    return take(n, before, std::make_shared<LinearBackwardData>(product.x_shape, product.transposed, true),
                inputs, nodes_.node(n).outputs);
  }

  /// The node that makes the tensor, if it is an operation of this kind.
  template <class Op>
  int maker_as(TensorId id) const {
    const int maker = nodes_.maker_of(id);
    const bool is_such =
        maker != EntryEditor::kNobody && dynamic_cast<const Op*>(nodes_.node(maker).op.get()) != nullptr;
    return is_such ? maker : EntryEditor::kNobody;
  }

  /// Replaces the node's operation by one that includes the gelu, unless the device's planner refuses it.
  bool take(size_t gelu, int into, const std::shared_ptr<const Operation>& op,
            const std::vector<TensorId>& inputs, const std::vector<TensorId>& outputs) {
    const OpContext context{.op = *op,
                            .inputs = specs_of(program_.tensors, inputs),
                            .outputs = specs_of(program_.tensors, outputs)};
    if (planner_.why_not(context)) return false;
    nodes_.remove(gelu);
    const auto node = static_cast<size_t>(into);
    nodes_.set_op(node, op);
    nodes_.set_inputs(node, inputs);
    nodes_.set_outputs(node, outputs);
    return true;
  }

  Program& program_;
  EntryEditor nodes_;
  const Planner& planner_;
};

}  // namespace

Pass fuse_gelu(const Planner& planner) {
  auto run = [&planner](Program& program) {
    for (Entry& entry : program.entries) FuseGelu(program, entry, planner).run();
  };
  return {.name = "fuse_gelu",
          .help = "compute gelu_tanh and its gradient together with the product before it, if the device can",
          .optional = true,
          .run = run,
          .after = {"autodiff"}};
}

std::optional<Pass> fuse_gelu_pass(const PassSettings& settings) {
  const bool recomputes = settings.recompute.kind != Recompute::Kind::none;
  if (settings.planner == nullptr || recomputes) return std::nullopt;
  return fuse_gelu(*settings.planner);
}

}  // namespace trainer
