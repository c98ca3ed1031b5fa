// SPDX-License-Identifier: Apache-2.0
#include "core/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/config/messages.h"
#include "core/config/patterns.h"
#include "core/graph/names.h"
#include "core/graph/operation.h"
#include "core/graph/ops/loss_scale.h"
#include "core/graph/ops/unary.h"
#include "core/optim/loss_scaling.h"
#include "core/optim/step_report.h"

namespace trainer {
namespace {

TensorId counter(Program& program, const std::string& name) {
  return program.persistent(name, {{1}, DType::i32}, Role::state, {});
}

/// Whoever follows the metric writes it between steps.
TensorId learning_rate_factor(Program& program) {
  return program.persistent(state_name::kLearningRateFactor, {{1}, DType::f32}, Role::optimizer,
                            {.kind = Initial::Kind::fill, .a = 1, .b = 0, .table = {}});
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
  fields.add("weight_decay", &weight_decay, "weight decay of all in the group; default: as without a group")
      .at_least(0);
}

void Optimizer::declare(Fields& fields) {
  fields.add("lr", &lr, "base learning rate; lr_scheduler multiplies it").at_least(0);
  declare_parameters(fields);
  fields.add("weight_decay", &weight_decay, "coefficient of the weight decay").at_least(0);
  fields
      .add("no_decay", &no_decay,
           "kinds of parameters without weight decay; norm: every one-dimensional parameter except biases")
      .one_of({"bias", "norm"});
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

StepSetting Optimizer::setting_of(const Tensor& parameter, const update::Rule& rule) const {
  const bool spared = is_spared(parameter);
  const bool adapts = !spared && std::visit([](const auto& one) { return one.kAdapts; }, rule);
  StepSetting setting{.weight_decay = spared ? 0 : weight_decay, .lr_factor = 1, .adapts = adapts};
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
  return parameter.spec.shape.size() == 1 && listed("norm");
}

void Optimizer::append_update(Program& program, Entry& entry, const std::vector<float>& lr_table,
                              const StepGuards& guards, bool adapts_lr) const {
  Builder build(program, entry);
  build.set_phase(Phase::update);
  build.set_origin(origin);
  const TensorId table = program.persistent(
      state_name::kLearningRates, {{static_cast<int64_t>(lr_table.size())}, DType::f32}, Role::constant,
      {.kind = Initial::Kind::table, .a = 0, .b = 0, .table = {lr_table.begin(), lr_table.end()}});
  StepInputs inputs{.lr = kNone, .updates = update_counter(program)};
  inputs.lr = build.emit<TableLookup>({table, inputs.updates});
  if (adapts_lr) inputs.lr = build.emit<MultiplyBy>({inputs.lr, learning_rate_factor(program)});
  put_out(build, &StepReport::lr, inputs.lr);
  const CountedLoss loss = append_mean_loss(build);
  // A limit of the norm reads all gradients anyway. Elsewhere a NaN among them reaches the next loss.
  const bool watches = guards.loss && (clip_norm || hides_nan(program));
  if (scales_loss(program) || guards.counts || watches) {
    append_watch(build, inputs, guards, loss);
  } else {
    if (guards.loss) inputs.skip = append_guard(build, guards, {}, false).skip;
    if (loss.counts()) append_counted_clipping(build, inputs, loss);
    if (!loss.counts()) append_clipping(build, inputs);
  }
  append_step(build, inputs, std::exchange(entry.gradients, {}));
  build.assign(inputs.updates, build.emit<Increment>({inputs.updates, inputs.skip}));
  const TensorId steps = step_counter(program);
  build.assign(steps, build.emit<Increment>({steps}));
}

/// Looks at all gradients. The factor that undoes the loss's scale goes through the step's own walk; only a
/// limit for each element needs one before.
void Optimizer::append_watch(Builder& build, StepInputs& inputs, const StepGuards& guards,
                             const CountedLoss& counted) const {
  Entry& entry = build.entry();
  const bool scaled = scales_loss(build.program());
  std::vector<TensorId> read = {counted.counts() ? counted.divisor : scale_of_loss(build.program())};
  for (const ParameterGradient& pair : entry.gradients) read.push_back(pair.gradient);
  auto limit = clip_value ? std::nullopt : clip_norm;
  const bool watches_norm = guards.spike && guards.spike->norm_sigmas > 0;
  if (watches_norm && !limit) limit = std::numeric_limits<double>::infinity();
  const auto found = build.emit_all(std::make_shared<Unscale>(limit), read);
  if (limit) put_out(build, &StepReport::grad_norm, found[Unscale::kNorm]);
  const bool guarded = guards.counts || guards.loss;
  const Watched watched{.found = found[Unscale::kFound], .norm = limit ? found[Unscale::kNorm] : kNone};
  const GuardedStep step =
      guarded ? append_guard(build, guards, watched, scaled) : GuardedStep{.skip = found[Unscale::kFound]};
  inputs.skip = step.skip;
  if (clip_value) {
    for (ParameterGradient& pair : entry.gradients) {
      if (scaled || counted.counts())
        pair.gradient = build.emit<MultiplyBy>({pair.gradient, found[Unscale::kFactor]});
    }
    append_clipping(build, inputs);
  } else {
    if (scaled || clip_norm || counted.counts()) inputs.scale = found[Unscale::kFactor];
  }
  if (scaled) append_scale_update(build, found[Unscale::kFound], step.held);
}

/// Gradients of a loss that counts are divided by what it has counted, before any limit; by the step's own
/// walk where there is none for each element.
void Optimizer::append_counted_clipping(Builder& build, StepInputs& inputs,
                                        const CountedLoss& counted) const {
  Entry& entry = build.entry();
  if (clip_value) {
    for (ParameterGradient& pair : entry.gradients)
      pair.gradient = build.emit<MultiplyBy>({pair.gradient, counted.factor});
    return append_clipping(build, inputs);
  }
  inputs.scale = counted.factor;
  if (!clip_norm) return;
  std::vector<TensorId> read = {counted.divisor};
  for (const ParameterGradient& pair : entry.gradients) read.push_back(pair.gradient);
  const auto found = build.emit_all(std::make_shared<Unscale>(clip_norm), read);
  inputs.scale = found[Unscale::kFactor];
  put_out(build, &StepReport::grad_norm, found[Unscale::kNorm]);
}

void Optimizer::append_clipping(Builder& build, StepInputs& inputs) const {
  Entry& entry = build.entry();
  if (clip_value) {
    const elementwise::HardTanh clip{.min_value = -*clip_value, .max_value = *clip_value};
    for (ParameterGradient& pair : entry.gradients) {
      pair.gradient = build.emit<Unary>({pair.gradient}, elementwise::Function(clip));
    }
  }
  if (clip_norm) {
    std::vector<TensorId> gradients;
    for (const ParameterGradient& pair : entry.gradients) gradients.push_back(pair.gradient);
    const auto clipped = build.emit_all(std::make_shared<ClipByNorm>(*clip_norm), gradients);
    inputs.scale = clipped[ClipByNorm::kScale];
    if (!puts_out(entry, &StepReport::grad_norm))
      put_out(build, &StepReport::grad_norm, clipped[ClipByNorm::kNorm]);
  }
}

void Optimizer::append_walk(Builder& build, const StepInputs& inputs, const update::Rule& rule,
                            const std::vector<ParameterGradient>& parameters, double lr_factor) const {
  Program& program = build.program();
  const update::MomentNames moments = std::visit([](const auto& one) { return one.moments(); }, rule);
  std::vector<StepSetting> settings;
  std::vector<TensorId> all = {inputs.lr, inputs.updates, inputs.scale, inputs.skip};
  std::vector<TensorId> changed;
  for (const ParameterGradient& pair : parameters) {
    const Tensor parameter = program.tensor(pair.parameter);
    settings.push_back(setting_of(parameter, rule));
    settings.back().lr_factor *= lr_factor;
    all.insert(all.end(), {pair.parameter, pair.gradient});
    changed.push_back(pair.parameter);
    for (const char* suffix : moments) {
      changed.push_back(program.persistent(parameter.name + suffix, parameter.spec, Role::optimizer, {}));
      all.push_back(changed.back());
    }
  }
  const auto values = build.emit_all(std::make_shared<OptimizerStep>(rule, std::move(settings)), all);
  for (size_t i = 0; i < changed.size(); ++i) build.assign(changed[i], values[i]);
}

}  // namespace trainer
