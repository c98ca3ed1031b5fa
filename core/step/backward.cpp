// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/graph/operation.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/loss_scale.h"
#include "core/passes/dependence.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// Reverse mode: traverses the forward nodes backwards and gets each operation's gradient.
class ReverseTraversal {
 public:
  ReverseTraversal(Program& program, Entry& entry)
      : program_(program), build_(program, entry), entry_(entry) {
    build_.set_phase(Phase::backward);
    build_.set_role(Role::gradient);
  }

  /// `seed` is the gradient of the loss itself.
  void run(TensorId loss, TensorId seed) {
    dependent_ = depends_on_trained(program_, entry_);
    gradient_.assign(program_.tensors.size(), kNone);
    set(loss, seed);
    const size_t forward_nodes = entry_.nodes.size();
    for (size_t n = forward_nodes; n-- > 0;) differentiate(Node(entry_.nodes[n]));  // a copy: the list grows
    for (size_t id = 0; id < dependent_.size(); ++id) {
      if (program_.tensors[id].role != Role::parameter || get(static_cast<TensorId>(id)) == kNone) continue;
      entry_.gradients.push_back({static_cast<TensorId>(id), get(static_cast<TensorId>(id))});
    }
  }

 private:
  void differentiate(const Node& node) {
    Backward backward{.build = build_, .node = node, .dy = {}, .wanted = {}};
    for (TensorId id : node.outputs) backward.dy.push_back(id == kNone ? kNone : get(id));
    for (TensorId id : node.inputs) {
      backward.wanted.push_back(id != kNone && dependent_[static_cast<size_t>(id)]);
    }
    const bool reached =
        std::any_of(backward.dy.begin(), backward.dy.end(), [](TensorId id) { return id != kNone; });
    const bool needed =
        std::find(backward.wanted.begin(), backward.wanted.end(), true) != backward.wanted.end();
    if (!reached || !needed) return;
    build_.set_origin(node.origin);
    const std::vector<TensorId> dx = node.op->gradient(backward);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!backward.wanted[i]) continue;
      if (i >= dx.size() || dx[i] == kNone) refuse(node, i);
      add(node.inputs[i], dx[i]);
    }
  }

  /// A missing gradient would be one of zero.
  [[noreturn]] static void refuse(const Node& node, size_t input) {
    throw std::logic_error(
        fmt::format("{} gives no gradient for its input {}, which depends on weights that are trained",
                    node.op->name(), input));
  }

  /// A tensor with several readers gets the sum of its gradients.
  void add(TensorId of, TensorId dx) {
    set(of, get(of) == kNone ? dx : build_.emit<Binary>({get(of), dx}, Binary::Kind::add));
  }

  TensorId get(TensorId id) const {
    return static_cast<size_t>(id) < gradient_.size() ? gradient_[static_cast<size_t>(id)] : kNone;
  }
  void set(TensorId id, TensorId dx) { gradient_[static_cast<size_t>(id)] = dx; }

  Program& program_;
  Builder build_;
  Entry& entry_;
  std::vector<bool> dependent_;
  std::vector<TensorId> gradient_;  ///< by forward tensor
};

}  // namespace

Pass autodiff(bool scales_loss) {
  auto run = [scales_loss](Program& program) {
    const TensorId seed = scales_loss ? loss_scale(program) : constant_one(program);
    Entry& entry = program.entry(entry_name::kTrainStep);
    const TensorId loss = entry.output(output_name::kLoss);
    if (loss == kNone) throw std::logic_error("entry " + entry.name + " has no loss");
    ReverseTraversal(program, entry).run(loss, seed);
  };
  return {
      .name = "autodiff",
      .help = "append the gradient of the loss",
      .optional = false,
      .run = run,
      .after = {"loss", "mixed_precision", "fuse_residual", "fold_batch_norm", "fuse_relu", "pad_channels"}};
}

}  // namespace trainer
