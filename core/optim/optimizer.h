// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "core/config/fields.h"
#include "core/graph/builder.h"
#include "core/graph/ops/optimizer_steps.h"

namespace trainer {

/// Parameters with another update than the rest, selected by name.
class ParameterGroup : public Component {
 public:
  std::string pattern;
  double lr_factor = 1;
  std::optional<double> weight_decay;  ///< otherwise the optimiser's, and its no_decay

  void declare(Fields& fields) override;
};

/// How gradients change parameters.
class Optimizer : public Component {
 public:
  double lr = 0.1;
  std::optional<int64_t> lr_for_batch;  ///< samples of a global batch for which `lr` holds; absent: any
  std::string lr_scaling = "linear";
  double weight_decay = 0;
  double layer_lr_decay = 1;
  std::vector<std::string> no_decay;
  std::vector<std::unique_ptr<ParameterGroup>> groups;  ///< a parameter belongs to the first that matches
  std::optional<double> clip_norm, clip_value;

  void declare(Fields& fields) final;

  /// The base learning rate for batches of this many samples, and how many times `lr` that is.
  double lr_at(int64_t global_batch) const { return lr * lr_scale(global_batch); }
  double lr_scale(int64_t global_batch) const;

  /// Throws Error (exit 78) if a group matches none of the names of trained parameters, or only names that
  /// earlier groups have taken.
  void check_groups(const std::vector<std::string>& parameters) const;

  /// Inputs of the update of all parameters, besides the parameters.
  struct StepInputs {
    TensorId lr = kNone;       ///< (1), of this update
    TensorId updates = kNone;  ///< i32 (1), updates applied so far
    TensorId scale = kNone;    ///< (1), factor of the gradients; kNone: nothing
    TensorId skip = kNone;     ///< (1), not 0 if the step is skipped; kNone: never
  };
  /// Appends the nodes that update these parameters and their moments.
  virtual void append_step(Builder& build, const StepInputs& inputs,
                           const std::vector<ParameterGradient>& parameters) const = 0;

  /// Whether each of several ranks may hold the moments of some parameters only.
  virtual bool can_shard() const { return true; }
  /// Whether each of several ranks may hold a part of every parameter: the rule reads no others' elements.
  virtual bool updates_each_element() const { return can_shard(); }

 protected:
  virtual void declare_parameters(Fields& fields) = 0;
  /// One pass over these parameters by a rule, with its own moments. `lr_factor` multiplies the learning
  /// rate, in addition to the groups' factors.
  void append_rule(Builder& build, const StepInputs& inputs, const update::Rule& rule,
                   const std::vector<ParameterGradient>& parameters, double lr_factor = 1) const;

 private:
  ParameterSettings setting_of(const Tensor& parameter, const update::Rule& rule) const;
  /// The factor of each parameter's learning rate by layer_lr_decay, by name.
  std::map<std::string, double> layer_factors(const Program& program) const;
  /// Whether no_decay lists the parameter's kind.
  bool is_spared(const Tensor& parameter) const;
};

/// One for each rule of core/graph/ops/update_rules.h, and those that are more than a rule.
const Registry<Optimizer>& optimizers();

/// Persistent counters, i32 (1): batches consumed, and updates applied.
TensorId step_counter(Program& program);
TensorId update_counter(Program& program);

}  // namespace trainer
