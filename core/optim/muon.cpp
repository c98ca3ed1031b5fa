// SPDX-License-Identifier: Apache-2.0
#include "core/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/graph/operation.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/loss_scale.h"
#include "core/graph/ops/matmul.h"

// Muon (Jordan, "Muon: An optimizer for hidden layers in neural networks", 2024), with the keys and defaults
// of PyTorch's Muon. It uses only operations that exist for other purposes, so every backend has it.

namespace trainer {
namespace {

using Tensors = std::set<TensorId>;

/// Goes from an entry's losses back to the last layers: through nodes with no weights but vectors, up to the
/// first matrices or kernels.
class LastLayers {
 public:
  LastLayers(const Program& program, const Entry& entry) : program_(program) {
    for (const Node& node : entry.nodes) note_weights(node);
    for (size_t n = entry.nodes.size(); n-- > 0;) {
      if (entry.nodes[n].phase == Phase::forward) visit(entry.nodes[n]);
    }
  }

  const Tensors& tables() const { return tables_; }
  const Tensors& matrices() const { return matrices_; }

 private:
  /// A tensor computed only from stored tensors is a weight too: in another type or shape, or with a
  /// normalisation folded in. Rows of a table are not.
  void note_weights(const Node& node) {
    if (const auto table = node.op->table_input()) {
      tables_.merge(weights_behind(node.inputs[*table]).value_or(Tensors{}));
      return;
    }
    Tensors all;
    for (const TensorId input : node.inputs) {
      if (input == kNone) continue;
      auto weights = weights_behind(input);
      if (!weights) return;
      all.merge(*weights);
    }
    for (const TensorId output : node.outputs) weights_[output] = all;
  }

  /// The matrices and kernels that a tensor is made of; nothing if it also depends on the batch.
  std::optional<Tensors> weights_behind(TensorId id) const {
    const Tensor& tensor = program_.tensor(id);
    if (is_persistent(tensor.role)) {
      const bool is_weight = tensor.role == Role::parameter || tensor.role == Role::derived;
      return is_weight && tensor.spec.shape.size() > 1 ? Tensors{id} : Tensors{};
    }
    const auto made = weights_.find(id);
    return made == weights_.end() ? std::nullopt : std::optional(made->second);
  }

  void visit(const Node& node) {
    if (const auto judged = node.op->judged_input()) {
      to_loss_.insert(node.inputs[*judged]);
      return;
    }
    const auto makes_one_of = [&](const Tensors& wanted) {
      return std::ranges::any_of(node.outputs, [&](TensorId id) { return wanted.contains(id); });
    };
    const bool leads_to_loss = makes_one_of(to_loss_), leads_to_layer = makes_one_of(to_layer_);
    if (!leads_to_loss && !leads_to_layer) return;
    Tensors weights = weights_of(node);
    const bool is_layer = !weights.empty();
    if (!leads_to_layer) matrices_.merge(weights);
    for (const TensorId id : node.inputs) {
      if (id == kNone) continue;
      if (leads_to_layer || is_layer) to_layer_.insert(id);
      if (leads_to_loss && !is_layer) to_loss_.insert(id);
    }
  }

  /// The matrices and kernels that a node reads.
  Tensors weights_of(const Node& node) const {
    Tensors found;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorId input = node.inputs[i];
      if (input == kNone || i == node.op->table_input() || program_.spec(input).shape.size() < 2) continue;
      found.merge(weights_behind(input).value_or(Tensors{}));
    }
    return found;
  }

  const Program& program_;
  std::map<TensorId, Tensors> weights_;  ///< of each tensor that does not depend on the batch
  Tensors to_loss_, to_layer_;           ///< that a loss, or a layer with weights, is computed from
  Tensors tables_, matrices_;
};

/// The polynomial 3.4445 x - 4.7750 x^3 + 2.0315 x^5 moves singular values in (0, 1] towards 1, small ones as
/// fast as possible; they end between 0.7 and 1.2.
constexpr double kX = 3.4445, kCube = -4.7750, kFifth = 2.0315;

/// a * x + b * y. a may not be 1.
TensorId combined(Builder& build, double a, TensorId x, double b, TensorId y) {
  return build.emit<Lerp>({x, y}, 1 - a, b / (1 - a));
}

/// The Newton-Schulz iteration: a matrix with the singular vectors of u, and singular values near 1, times
/// `factor`. Of a tall u, XT X is smaller than X XT, and X p(XT X) is the same as p(X XT) X.
TensorId orthogonalised(Builder& build, TensorId u, int64_t steps, double eps, double factor) {
  const bool is_tall = build.shape(u)[0] > build.shape(u)[1];
  TensorId x = build.emit<MultiplyBy>({u, build.emit<ClipByNorm>({u}, 1.0, eps, true)});
  for (int64_t step = 1; step <= steps; ++step) {
    const TensorId square = build.emit<MatMul>({x, x}, is_tall, !is_tall);
    const TensorId fourth = build.emit<MatMul>({square, square});
    const TensorId odd = combined(build, kCube, square, kFifth, fourth);
    const TensorId rest = is_tall ? build.emit<MatMul>({x, odd}) : build.emit<MatMul>({odd, x});
    const double last = step == steps ? factor : 1;
    x = combined(build, last * kX, x, last, rest);
  }
  return x;
}

class Muon final : public Optimizer {
 public:
  Muon() {
    lr = 1e-3;
    weight_decay = 0.1;
  }
  /// A matrix is made orthogonal as a whole.
  bool can_shard() const override { return false; }

  void append_step(Builder& build, const StepInputs& inputs,
                   const std::vector<ParameterGradient>& parameters) const override {
    const Program& program = build.program();
    const std::set<TensorId> own = program.whole ? Tensors{} : tables_and_last_layers(program);
    const auto is_spared = [&](TensorId id) {
      return program.whole ? program.whole->tables_and_last_layers.contains(program.tensor(id).name)
                           : own.contains(id);
    };
    std::vector<ParameterGradient> others;
    for (const ParameterGradient& pair : parameters) {
      if (build.shape(pair.parameter).size() == 2 && !is_spared(pair.parameter)) {
        append_matrix(build, inputs, pair);
      } else {
        others.push_back(pair);
      }
    }
    if (!others.empty()) append_rule(build, inputs, adamw_, others, adamw_lr_factor_);
  }

 protected:
  void declare_parameters(Fields& fields) override {
    fields.add("momentum", &momentum_, "decay of the momentum").at_least(0).below(1);
    fields.add("nesterov", &nesterov_, "use Nesterov momentum");
    fields.add("ns_steps", &ns_steps_, "number of Newton-Schulz iterations").at_least(1).at_most(100);
    fields.add("eps", &eps_, "added to the norm of each matrix for numerical stability").above(0);
    fields
        .add("adamw_lr_factor", &adamw_lr_factor_,
             "multiplies the learning rate of parameters that AdamW updates")
        .at_least(0);
    fields.add("adamw_beta1", &adamw_.beta1, "AdamW's decay of the first moment").at_least(0).below(1);
    fields.add("adamw_beta2", &adamw_.beta2, "AdamW's decay of the second moment").at_least(0).below(1);
    fields.add("adamw_eps", &adamw_.eps, "AdamW's eps").above(0);
  }

 private:
  /// Each matrix has a pass of its own, so that temporaries of Newton-Schulz live no longer than needed.
  void append_matrix(Builder& build, StepInputs inputs, const ParameterGradient& pair) const {
    Program& program = build.program();
    const Tensor matrix = program.tensor(pair.parameter);
    TensorId g = pair.gradient;
    if (inputs.scale != kNone) g = build.emit<MultiplyBy>({g, inputs.scale});
    inputs.scale = kNone;
    const TensorId momentum = program.persistent(matrix.name + ".momentum", matrix.spec, Role::optimizer, {});
    std::vector<TensorId> averaged = {momentum, g};
    if (inputs.skip != kNone) averaged.push_back(inputs.skip);
    const TensorId mean = build.emit<Lerp>(averaged, 1 - momentum_);
    const TensorId u = nesterov_ ? build.emit<Lerp>({g, mean}, momentum_) : mean;
    build.assign(momentum, mean);
    const Shape& shape = matrix.spec.shape;
    const double longer =
        std::sqrt(std::max(1.0, static_cast<double>(shape[0]) / static_cast<double>(shape[1])));
    const TensorId x = orthogonalised(build, u, ns_steps_, eps_, longer);
    // SGD without momentum: w -= lr * (x + decay * w), so the decay is decoupled.
    append_rule(build, inputs, update::Sgd{}, {{pair.parameter, x}});
  }

  double momentum_ = 0.95, eps_ = 1e-7, adamw_lr_factor_ = 1;
  bool nesterov_ = true;
  int64_t ns_steps_ = 5;
  update::AdamW adamw_;
};

}  // namespace

std::set<TensorId> tables_and_last_layers(const Program& program) {
  Tensors found;
  for (const Entry& entry : program.entries) {
    const LastLayers last(program, entry);
    found.insert(last.tables().begin(), last.tables().end());
    found.insert(last.matrices().begin(), last.matrices().end());
  }
  return found;
}

Registered<Optimizer> muon_optimizer() {
  return {"muon",
          "Muon: orthogonalised momentum for matrices, as PyTorch's Muon; AdamW for vectors, convolution "
          "kernels, embedding and position tables, and the last linear layer",
          [] { return std::make_unique<Muon>(); }};
}

}  // namespace trainer
