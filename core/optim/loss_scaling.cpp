// SPDX-License-Identifier: Apache-2.0
#include "core/optim/loss_scaling.h"

#include "core/graph/names.h"
#include "core/graph/ops/loss_scale.h"
#include "core/optim/step_report.h"

namespace trainer {

bool scales_loss(const Program& program) {
  return program.find(state_name::kLossScale) != kNone;
}

TensorId scale_of_loss(Program& program) {
  return scales_loss(program) ? loss_scale(program) : constant_one(program);
}

void append_scale_update(Builder& build, TensorId found, TensorId held) {
  Program& program = build.program();
  const std::vector<TensorId> states = {loss_scale(program), good_step_counter(program),
                                        skipped_step_counter(program)};
  std::vector<TensorId> read = states;
  read.insert(read.end(), {found, held});
  const auto next = build.emit_all(std::make_shared<UpdateLossScale>(LossScaling{}), read);
  for (size_t i = 0; i < states.size(); ++i) build.assign(states[i], next[i]);
  put_out(build, &StepReport::loss_scale, next[UpdateLossScale::kScale]);
  put_out(build, &StepReport::overflows, next[UpdateLossScale::kSkipped]);
}

}  // namespace trainer
