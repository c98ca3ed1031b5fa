// SPDX-License-Identifier: Apache-2.0
#include "core/step/update.h"

#include <utility>

#include "core/graph/names.h"
#include "core/graph/ops/loss_scale.h"
#include "core/graph/ops/optimizer_steps.h"
#include "core/step/stages.h"
#include "core/step/step_report.h"

namespace trainer {
namespace {

/// The code that follows the metric writes it between steps.
TensorId learning_rate_factor(Program& program) {
  return program.persistent(state_name::kLearningRateFactor, {{1}, DType::f32}, Role::optimizer,
                            {.kind = Initial::Kind::fill, .a = 1, .b = 0, .table = {}});
}

Pass stage(const char* name, const char* help, void (*run)(Update&), const UpdateSpec& spec,
           const std::shared_ptr<UpdateState>& state, const char* previous) {
  return {.name = name,
          .help = help,
          .optional = false,
          .run =
              [=](Program& program) {
                Update update(program, program.entry(updating_entry(program)), spec, *state);
                run(update);
              },
          .after = {previous}};
}

}  // namespace

Update::Update(Program& whole, Entry& updating, const UpdateSpec& wanted, UpdateState& shared)
    : program(whole), entry(updating), build(whole, updating), spec(wanted), state(shared) {
  build.set_phase(Phase::update);
  build.set_origin(spec.optimizer->origin);
}

const char* updating_entry(const Program& program) {
  return program.find_entry(entry_name::kUpdate) != nullptr ? entry_name::kUpdate : entry_name::kTrainStep;
}

TensorId skip_of(const Entry& entry) {
  for (const Node& node : entry.nodes) {
    if (dynamic_cast<const OptimizerStep*>(node.op.get()) != nullptr)
      return node.inputs[OptimizerStep::kSkip];
  }
  return kNone;
}

void look_up_learning_rate(Update& update) {
  const std::vector<float>& rates = update.spec.learning_rates;
  const TensorId table = update.program.persistent(
      state_name::kLearningRates, {{static_cast<int64_t>(rates.size())}, DType::f32}, Role::constant,
      {.kind = Initial::Kind::table, .a = 0, .b = 0, .table = {rates.begin(), rates.end()}});
  Optimizer::StepInputs& inputs = update.state.inputs;
  inputs.updates = update_counter(update.program);
  inputs.lr = update.build.emit<TableLookup>({table, inputs.updates});
  if (update.spec.adapts_lr)
    inputs.lr = update.build.emit<MultiplyBy>({inputs.lr, learning_rate_factor(update.program)});
  put_out(update.build, &StepReport::lr, inputs.lr);
}

void change_parameters(Update& update) {
  Builder& build = update.build;
  const Optimizer::StepInputs& inputs = update.state.inputs;
  update.spec.optimizer->append_step(build, inputs, std::exchange(update.entry.gradients, {}));
  build.assign(inputs.updates, build.emit<Increment>({inputs.updates, inputs.skip}));
  const TensorId steps = step_counter(update.program);
  build.assign(steps, build.emit<Increment>({steps}));
}

Pass learning_rate(const UpdateSpec& spec, const std::shared_ptr<UpdateState>& state) {
  return stage("learning_rate", "look up the learning rate of the update", look_up_learning_rate, spec, state,
               "data_parallel");
}
Pass mean_loss(const UpdateSpec& spec, const std::shared_ptr<UpdateState>& state) {
  return stage("mean_loss", "divide a loss by the valid targets of the whole step", average_loss, spec, state,
               "learning_rate");
}
Pass guard(const UpdateSpec& spec, const std::shared_ptr<UpdateState>& state) {
  return stage("guard", "decide whether the step is skipped", guard_step, spec, state, "mean_loss");
}
Pass clip_gradients(const UpdateSpec& spec, const std::shared_ptr<UpdateState>& state) {
  return stage("clip_gradients", "limit gradients by value and by their joint norm", limit_gradients, spec,
               state, "guard");
}
Pass adapt_loss_scale(const UpdateSpec& spec, const std::shared_ptr<UpdateState>& state) {
  return stage("adapt_loss_scale", "move the loss scale", move_loss_scale, spec, state, "clip_gradients");
}
Pass apply_update(const UpdateSpec& spec, const std::shared_ptr<UpdateState>& state) {
  return stage("update", "change the parameters by the optimizer's rule", change_parameters, spec, state,
               "adapt_loss_scale");
}

}  // namespace trainer
