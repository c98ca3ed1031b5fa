// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/loss_scale.h"

#include "core/graph/names.h"
#include "core/step/step_report.h"
#include "core/step/update.h"

namespace trainer {

bool scales_loss(const Program& program) {
  return program.find(state_name::kLossScale) != kNone;
}

TensorId scale_of_loss(Program& program) {
  return scales_loss(program) ? loss_scale(program) : constant_one(program);
}

void move_loss_scale(Update& update) {
  Program& program = update.program;
  const std::vector<TensorId> states = {loss_scale(program), good_step_counter(program),
                                        skipped_step_counter(program)};
  std::vector<TensorId> read = states;
  read.insert(read.end(), {update.state.nonfinite, update.state.keeps_scale});
  const auto next = update.build.emit_all(std::make_shared<UpdateLossScale>(LossScaling{}), read);
  for (size_t i = 0; i < states.size(); ++i) update.build.assign(states[i], next[i]);
  put_out(update.build, &StepReport::loss_scale, next[UpdateLossScale::kScale]);
  put_out(update.build, &StepReport::overflows, next[UpdateLossScale::kSkipped]);
}

}  // namespace trainer
