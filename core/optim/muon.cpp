// SPDX-License-Identifier: Apache-2.0
#include "core/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/graph/operation.h"
#include "core/graph/ops/blend.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/embedding.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/loss_scale.h"
#include "core/graph/ops/matmul.h"
#include "core/graph/ops/positions.h"
#include "core/graph/ops/reshape.h"

// Muon (Jordan, "Muon: An optimizer for hidden layers in neural networks", 2024), with the keys and defaults
// of PyTorch's Muon. All of it is made of operations that exist for other purposes, so every backend has it.

namespace trainer {
namespace {

using Makers = std::map<TensorId, const Node*>;

Makers makers_of(const Program& program) {
  Makers makers;
  for (const Entry& entry : program.entries) {
    for (const Node& node : entry.nodes) {
      for (const TensorId id : node.outputs) {
        if (id != kNone) makers[id] = &node;
      }
    }
  }
  return makers;
}

template <class Op>
bool is(const Node& node) {
  return dynamic_cast<const Op*>(node.op.get()) != nullptr;
}

/// What was stored before its type and shape changed.
TensorId source_of(const Makers& makers, TensorId id) {
  auto made = makers.find(id);
  while (made != makers.end() && (is<Cast>(*made->second) || is<Reshape>(*made->second))) {
    id = made->second->inputs[0];
    made = makers.find(id);
  }
  return id;
}

/// The linear layer that makes the logits, perhaps followed by operations on its output alone; or nullptr.
const Node* head_of(const Makers& makers, TensorId logits) {
  for (auto made = makers.find(logits); made != makers.end(); made = makers.find(made->second->inputs[0])) {
    if (is<Linear>(*made->second)) return made->second;
    if (made->second->inputs.size() != 1) break;
  }
  return nullptr;
}

/// The polynomial 3.4445 x - 4.7750 x^3 + 2.0315 x^5 brings singular values within (0, 1] near 1, small ones
/// as fast as possible: they end between 0.7 and 1.2.
constexpr double kX = 3.4445, kCube = -4.7750, kFifth = 2.0315;

/// a * x + b * y. a may not be 1.
TensorId combined(Builder& build, double a, TensorId x, double b, TensorId y) {
  return build.emit<Blend>({x, y}, 1 - a, b / (1 - a));
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

 protected:
  void declare_parameters(Fields& fields) override {
    fields.add("momentum", &momentum_, "decay of the running mean of a matrix's gradients")
        .at_least(0)
        .below(1);
    fields.add("nesterov", &nesterov_, "use Nesterov momentum");
    fields.add("ns_steps", &ns_steps_, "steps of the Newton-Schulz iteration").at_least(1).at_most(100);
    fields.add("eps", &eps_, "added to the norm that a matrix is divided by").above(0);
    fields.add("adamw_lr_factor", &adamw_lr_factor_, "multiplies the learning rate where AdamW updates")
        .at_least(0);
    fields.add("adamw_beta1", &adamw_.beta1, "AdamW's decay of the first moment").at_least(0).below(1);
    fields.add("adamw_beta2", &adamw_.beta2, "AdamW's decay of the second moment").at_least(0).below(1);
    fields.add("adamw_eps", &adamw_.eps, "added by AdamW to the square root of the second moment").above(0);
  }

  void append_step(Builder& build, const StepInputs& inputs,
                   const std::vector<ParameterGradient>& parameters) const override {
    const std::set<TensorId> spared = tables_and_head(build.program());
    std::vector<ParameterGradient> others;
    for (const ParameterGradient& pair : parameters) {
      if (build.shape(pair.parameter).size() == 2 && !spared.contains(pair.parameter)) {
        append_matrix(build, inputs, pair);
      } else {
        others.push_back(pair);
      }
    }
    if (!others.empty()) append_walk(build, inputs, adamw_, others, adamw_lr_factor_);
  }

 private:
  /// Each matrix has a walk of its own: what Newton-Schulz computes then lives no longer than needed.
  void append_matrix(Builder& build, StepInputs inputs, const ParameterGradient& pair) const {
    Program& program = build.program();
    const Tensor matrix = program.tensor(pair.parameter);
    TensorId g = pair.gradient;
    if (inputs.scale != kNone) g = build.emit<MultiplyBy>({g, inputs.scale});
    inputs.scale = kNone;
    const TensorId momentum = program.persistent(matrix.name + ".momentum", matrix.spec, Role::optimizer, {});
    std::vector<TensorId> blended = {momentum, g};
    if (inputs.skip != kNone) blended.push_back(inputs.skip);
    const TensorId mean = build.emit<Blend>(blended, 1 - momentum_);
    const TensorId u = nesterov_ ? build.emit<Blend>({g, mean}, momentum_) : mean;
    build.assign(momentum, mean);
    const Shape& shape = matrix.spec.shape;
    const double longer =
        std::sqrt(std::max(1.0, static_cast<double>(shape[0]) / static_cast<double>(shape[1])));
    const TensorId x = orthogonalised(build, u, ns_steps_, eps_, longer);
    // SGD without momentum: w -= lr * (x + decay * w), so the decay is decoupled.
    append_walk(build, inputs, update::Sgd{}, {{pair.parameter, x}});
  }

  double momentum_ = 0.95, eps_ = 1e-7, adamw_lr_factor_ = 1;
  bool nesterov_ = true;
  int64_t ns_steps_ = 5;
  update::AdamW adamw_;
};

}  // namespace

std::set<TensorId> tables_and_head(const Program& program) {
  const Makers makers = makers_of(program);
  std::set<TensorId> found;
  for (const Entry& entry : program.entries) {
    for (const Node& node : entry.nodes) {
      if (is<Embedding>(node)) found.insert(source_of(makers, node.inputs[1]));
      if (is<AddPositions>(node)) found.insert(source_of(makers, node.inputs[position_input::kTable]));
    }
    // Of the loss, since logits need not be put out.
    for (const Node& node : entry.nodes) {
      const Node* head =
          is<CrossEntropy>(node) || is<CountedCrossEntropy>(node) ? head_of(makers, node.inputs[0]) : nullptr;
      if (head != nullptr) found.insert(source_of(makers, head->inputs[1]));
    }
  }
  return found;
}

Registered<Optimizer> muon_optimizer() {
  return {"muon",
          "momentum made orthogonal for matrices, as PyTorch's Muon; AdamW for vectors, kernels, tables of "
          "embeddings and positions, and the last linear layer",
          [] { return std::make_unique<Muon>(); }};
}

}  // namespace trainer
