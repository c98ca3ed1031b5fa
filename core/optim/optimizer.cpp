// SPDX-License-Identifier: Apache-2.0
#include "core/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/config/messages.h"
#include "core/config/patterns.h"
#include "core/graph/names.h"
#include "core/graph/operation.h"
#include "core/optim/layer_depth.h"

namespace trainer {
namespace {

TensorId counter(Program& program, const std::string& name) {
  return program.persistent(name, {{1}, DType::i32}, Role::state, {});
}

}  // namespace

TensorId step_counter(Program& program) {
  return counter(program, state_name::kStep);
}
TensorId update_counter(Program& program) {
  return counter(program, state_name::kUpdates);
}

void ParameterGroup::declare(Fields& fields) {
  fields.add("pattern", &pattern, "names of the group's parameters, such as \"layer1.*\"").required();
  fields.add("lr_factor", &lr_factor, "multiplies the learning rate").at_least(0);
  fields.add("weight_decay", &weight_decay, "weight decay of the group; default: the optimizer's")
      .at_least(0);
}

void Optimizer::declare(Fields& fields) {
  fields.add("lr", &lr, "base learning rate; lr_scheduler multiplies it").at_least(0);
  fields
      .add(
          "lr_for_batch", &lr_for_batch,
          "training.global_batch_size for which lr holds; for others it is scaled by lr_scaling; default: lr "
          "holds for any")
      .at_least(1)
      .absent_as("null");
  fields
      .add("lr_scaling", &lr_scaling,
           "how lr grows with the batch beside lr_for_batch: linear (SGD), or sqrt (Adam and similar rules)")
      .one_of({"linear", "sqrt"})
      .absent_as("linear");
  declare_parameters(fields);
  fields.add("weight_decay", &weight_decay, "weight decay coefficient").at_least(0);
  fields
      .add("no_decay", &no_decay,
           "kinds of parameters without weight decay; norm: every one-dimensional parameter except biases")
      .one_of({"bias", "norm"});
  fields
      .add(
          "layer_lr_decay", &layer_lr_decay,
          "multiplies the learning rate of a layer by this to the power of its distance from the last layer; "
          "numbered blocks, such as blocks.3, count as one layer each; fine-tuning often uses 0.65 to 0.9")
      .above(0)
      .at_most(1)
      .absent_as("1");
  fields.maps(
      "groups", groups,
      "parameters with a learning rate or weight decay of their own; each is in the first group whose "
      "pattern matches its name");
  fields.add("clip_norm", &clip_norm, "maximum joint 2-norm of all gradients").above(0);
  fields
      .add("clip_value", &clip_value,
           "maximum absolute value of each gradient element, applied before clip_norm")
      .above(0);
}

double Optimizer::lr_scale(int64_t global_batch) const {
  if (!lr_for_batch) return 1;
  const double ratio = static_cast<double>(global_batch) / static_cast<double>(*lr_for_batch);
  return lr_scaling == "sqrt" ? std::sqrt(ratio) : ratio;
}

void Optimizer::check_groups(const std::vector<std::string>& parameters) const {
  Diagnostics diagnostics;
  std::vector<std::string> left = parameters;
  for (const auto& group : groups) {
    const size_t before = left.size();
    std::erase_if(left, [&](const std::string& name) { return matches(group->pattern, name); });
    if (left.size() < before) continue;
    const Origin place = group->origin_of("pattern");
    const bool taken = std::ranges::any_of(
        parameters, [&](const std::string& name) { return matches(group->pattern, name); });
    if (taken) {
      diagnostics.error(place, fmt::format("groups before this one take all that '{}' matches; a parameter "
                                           "is in the first group that matches",
                                           shown(group->pattern)));
    } else {
      check_patterns({group->pattern}, parameters, "trained parameter", place, diagnostics);
    }
  }
  diagnostics.throw_if_any();
}

ParameterSettings Optimizer::setting_of(const Tensor& parameter, const update::Rule& rule) const {
  const bool spared = is_spared(parameter);
  const bool adapts = !spared && std::visit([](const auto& one) { return one.kAdapts; }, rule);
  ParameterSettings setting{.weight_decay = spared ? 0 : weight_decay, .lr_factor = 1, .adapts = adapts};
  const auto group =
      std::ranges::find_if(groups, [&](const auto& each) { return matches(each->pattern, parameter.name); });
  if (group == groups.end()) return setting;
  setting.lr_factor = (*group)->lr_factor;
  setting.weight_decay = (*group)->weight_decay.value_or(setting.weight_decay);
  return setting;
}

bool Optimizer::is_spared(const Tensor& parameter) const {
  auto listed = [&](const char* kind) {
    return std::find(no_decay.begin(), no_decay.end(), kind) != no_decay.end();
  };
  if (parameter.name.ends_with(".bias")) return listed("bias");
  return whole_shape(parameter).size() == 1 && listed("norm");
}

std::map<std::string, double> Optimizer::layer_factors(const Program& program) const {
  std::map<std::string, double> factors;
  if (layer_lr_decay == 1) return factors;
  std::vector<std::string> names;
  if (program.whole) names = program.whole->parameters;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::parameter && !program.whole) names.push_back(tensor.name);
  }
  const std::vector<int64_t> depths = depths_from_top(names);
  for (size_t i = 0; i < names.size(); ++i)
    factors[names[i]] = std::pow(layer_lr_decay, static_cast<double>(depths[i]));
  return factors;
}

void Optimizer::append_rule(Builder& build, const StepInputs& inputs, const update::Rule& rule,
                            const std::vector<ParameterGradient>& parameters, double lr_factor) const {
  Program& program = build.program();
  const update::MomentNames moments = std::visit([](const auto& one) { return one.moments(); }, rule);
  const std::map<std::string, double> factors = layer_factors(program);
  std::vector<ParameterSettings> settings;
  std::vector<TensorId> all = {inputs.lr, inputs.updates, inputs.scale, inputs.skip};
  std::vector<TensorId> changed;
  for (const ParameterGradient& pair : parameters) {
    const Tensor parameter = program.tensor(pair.parameter);
    settings.push_back(setting_of(parameter, rule));
    settings.back().lr_factor *= lr_factor;
    if (!factors.empty()) settings.back().lr_factor *= factors.at(parameter.name);
    all.insert(all.end(), {pair.parameter, pair.gradient});
    changed.push_back(pair.parameter);
    for (const char* suffix : moments) {
      changed.push_back(program.beside(pair.parameter, suffix, Role::optimizer));
      all.push_back(changed.back());
    }
  }
  const auto values = build.emit_all(std::make_shared<OptimizerStep>(rule, std::move(settings)), all);
  for (size_t i = 0; i < changed.size(); ++i) build.assign(changed[i], values[i]);
}

}  // namespace trainer
