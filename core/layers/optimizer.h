// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/config/fields.h"
#include "core/graph/builder.h"

namespace trainer {

/// What the update of one parameter reads beside its gradient.
struct UpdateInputs {
  TensorId lr = kNone;       ///< (1), of this update
  TensorId updates = kNone;  ///< i32 (1), updates applied so far
  TensorId scale = kNone;    ///< (1), what gradients are multiplied with; kNone: nothing
};

/// How gradients change parameters.
class Optimizer : public Component {
 public:
  double lr = 0.1;
  double weight_decay = 0;
  std::vector<std::string> no_decay;
  std::optional<double> clip_norm, clip_value;

  void declare(Fields& fields) final;

  /// Appends to an entry the update of every parameter in `entry.gradients`; lr_table holds one learning rate
  /// per update. Gradients are clipped by value first, then by norm. Counts "counter.updates" and
  /// "counter.step" up. Outputs "lr" and, when clipping, "grad_norm".
  void append_update(Program& program, Entry& entry, const std::vector<float>& lr_table) const;

 protected:
  virtual void declare_parameters(Fields& fields) = 0;
  /// The update of one parameter, assigns included.
  virtual void update(Builder& build, const ParameterGradient& pair, const UpdateInputs& inputs,
                      double decay) const = 0;

  /// Whether no_decay lists the parameter's kind.
  bool is_spared(const Tensor& parameter) const;
};
const Registry<Optimizer>& optimizers();

/// Rows of the table, each defined in its own file.
Registered<Optimizer> sgd_optimizer();
Registered<Optimizer> adam_optimizer();
Registered<Optimizer> adamw_optimizer();
Registered<Optimizer> lars_optimizer();

/// Persistent counters, i32 (1): batches consumed, and updates applied.
TensorId step_counter(Program& program);
TensorId update_counter(Program& program);

}  // namespace trainer
