// SPDX-License-Identifier: Apache-2.0
#include "core/optim/guarded_step.h"

#include <algorithm>
#include <stdexcept>

#include "core/graph/names.h"
#include "core/graph/ops/linear.h"
#include "core/optim/optimizer.h"
#include "core/optim/step_report.h"

namespace trainer {
namespace {

/// The entry's own output, or what its micro-batches have summed up.
TensorId loss_of(const Program& program, const Entry& entry) {
  const TensorId own = entry.output(output_name::kLoss);
  const TensorId loss = own == kNone ? program.find(state_name::kGuardLoss) : own;
  if (loss == kNone) throw std::logic_error("a step without a loss cannot be guarded");
  return loss;
}

const TensorSpec kCounter{{1}, DType::i32};

}  // namespace

bool hides_nan(const Program& program) {
  const auto drops = [](const Node& node) {
    const auto* linear = dynamic_cast<const Linear*>(node.op.get());
    return linear != nullptr && linear->function == LinearFunction::relu_with_mask;
  };
  return std::ranges::any_of(program.entries,
                             [&](const Entry& entry) { return std::ranges::any_of(entry.nodes, drops); });
}

TensorId guard_skipped(Program& program) {
  return program.persistent(state_name::kGuardSkipped, kCounter, Role::optimizer, {});
}
TensorId guard_in_a_row(Program& program) {
  return program.persistent(state_name::kGuardInARow, kCounter, Role::optimizer, {});
}
TensorId guard_window(Program& program, const SpikeLimit& limit) {
  return program.persistent(state_name::kGuardWindow, {{2, limit.window}, DType::f32}, Role::optimizer, {});
}
TensorId guard_accepted(Program& program) {
  return program.persistent(state_name::kGuardAccepted, kCounter, Role::optimizer, {});
}
TensorId guard_skip_steps(Program& program, const StepGuards& guards) {
  return program.persistent(state_name::kGuardSkipSteps,
                            {{static_cast<int64_t>(guards.skip_steps.size())}, DType::i32}, Role::optimizer,
                            {.kind = Initial::Kind::table,
                             .a = 0,
                             .b = 0,
                             .table = {guards.skip_steps.begin(), guards.skip_steps.end()}});
}

GuardedStep append_guard(Builder& build, const StepGuards& guards, const Watched& watched, bool scaled) {
  Program& program = build.program();
  std::vector<TensorId> in(StepGuard::kInputs, kNone);
  in[StepGuard::kLoss] = loss_of(program, build.entry());
  in[StepGuard::kFound] = watched.found;
  if (!guards.counts) {
    const auto out = build.emit_all(std::make_shared<StepGuard>(0.0, 0.0, scaled), in);
    if (watched.found != kNone) put_out(build, &StepReport::guard_reason, out[StepGuard::kReason]);
    return {.skip = out[StepGuard::kSkip]};
  }
  in[StepGuard::kSteps] = step_counter(program);
  if (!guards.skip_steps.empty()) in[StepGuard::kSkipSteps] = guard_skip_steps(program, guards);
  if (guards.spike) {
    in[StepGuard::kNorm] = watched.norm;
    in[StepGuard::kWindow] = guard_window(program, *guards.spike);
    in[StepGuard::kAccepted] = guard_accepted(program);
  }
  in[StepGuard::kSkipped] = guard_skipped(program);
  in[StepGuard::kInARow] = guard_in_a_row(program);
  const SpikeLimit limit = guards.spike.value_or(SpikeLimit{.loss_sigmas = 0, .norm_sigmas = 0});
  const auto out =
      build.emit_all(std::make_shared<StepGuard>(limit.loss_sigmas, limit.norm_sigmas, scaled), in);
  for (size_t s = 0; s < StepGuard::kStates; ++s) {
    const TensorId state = in[StepGuard::kWindow + s];
    if (state != kNone) build.assign(state, out[StepGuard::kFirstState + s]);
  }
  put_out(build, &StepReport::guard_reason, out[StepGuard::kReason]);
  put_out(build, &StepReport::guard_skipped, out[StepGuard::kFirstState + 2]);
  put_out(build, &StepReport::guard_in_a_row, out[StepGuard::kFirstState + 3]);
  return {.skip = out[StepGuard::kSkip], .held = out[StepGuard::kHeld]};
}

}  // namespace trainer
