// SPDX-License-Identifier: Apache-2.0
#include "core/step/guard.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/graph/names.h"
#include "core/graph/ops/fake_quantize.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/loss_scale.h"
#include "core/step/step_report.h"
#include "core/step/update.h"

namespace trainer {
namespace {

/// The entry's own output, or the sum over its micro-batches.
TensorId loss_of(const Program& program, const Entry& entry) {
  const TensorId own = entry.output(output_name::kLoss);
  const TensorId loss = own == kNone ? program.find(state_name::kGuardLoss) : own;
  if (loss == kNone) throw std::logic_error("a step without a loss cannot be guarded");
  return loss;
}

const TensorSpec kCounterSpec{{1}, DType::i32};

/// Finds out whether all gradients are finite, and the factor to multiply them by. If their joint 2-norm is
/// limited or watched for spikes, it returns that.
TensorId measure_gradients(Update& update) {
  UpdateState& state = update.state;
  const Optimizer& optimizer = *update.spec.optimizer;
  const auto& spike = update.spec.guards.spike;
  std::vector<TensorId> read = {state.normalizes_by_valid_targets() ? state.divisor
                                                                    : scale_of_loss(update.program)};
  for (const TensorId id : measured_gradients(update)) read.push_back(id);
  auto limit = optimizer.clip_value ? std::nullopt : optimizer.clip_norm;
  if (spike && spike->norm_sigmas > 0 && !limit) limit = std::numeric_limits<double>::infinity();
  const auto found = update.build.emit_all(std::make_shared<Unscale>(limit), read);
  state.unscale = found[Unscale::kFactor];
  state.nonfinite = found[Unscale::kFound];
  if (limit) put_out(update.build, &StepReport::grad_norm, found[Unscale::kNorm]);
  return limit ? found[Unscale::kNorm] : kNone;
}

std::vector<TensorId> guard_inputs(const Update& update) {
  std::vector<TensorId> in(StepGuard::kInputs, kNone);
  in[StepGuard::kLoss] = loss_of(update.program, update.entry);
  in[StepGuard::kFound] = update.state.nonfinite;
  return in;
}

/// A guard without state, so that a checkpoint fits programs with and without an operation that hides NaN. It
/// outputs its reason only if it watches gradients.
void append_guard(Update& update) {
  const bool is_scaled = scales_loss(update.program);
  const auto out =
      update.build.emit_all(std::make_shared<StepGuard>(0.0, 0.0, is_scaled), guard_inputs(update));
  if (update.state.is_measured()) put_out(update.build, &StepReport::guard_reason, out[StepGuard::kReason]);
  update.state.inputs.skip = out[StepGuard::kSkip];
}

/// A guard that counts skipped steps, and outputs the guard's fields of StepReport.
void append_counting_guard(Update& update, TensorId norm) {
  Program& program = update.program;
  Builder& build = update.build;
  const StepGuards& guards = update.spec.guards;
  std::vector<TensorId> in = guard_inputs(update);
  in[StepGuard::kSteps] = step_counter(program);
  if (!guards.skip_steps.empty()) in[StepGuard::kSkipSteps] = guard_skip_steps(program, guards);
  if (guards.spike) {
    in[StepGuard::kNorm] = norm;
    in[StepGuard::kWindow] = guard_window(program, *guards.spike);
    in[StepGuard::kAccepted] = guard_accepted(program);
  }
  in[StepGuard::kSkipped] = guard_skipped(program);
  in[StepGuard::kInARow] = guard_in_a_row(program);
  const SpikeLimit limit = guards.spike.value_or(SpikeLimit{.loss_sigmas = 0, .norm_sigmas = 0});
  const auto out = build.emit_all(
      std::make_shared<StepGuard>(limit.loss_sigmas, limit.norm_sigmas, scales_loss(program)), in);
  for (size_t s = 0; s < StepGuard::kStates; ++s) {
    const TensorId state = in[StepGuard::kWindow + s];
    if (state != kNone) build.assign(state, out[StepGuard::kFirstState + s]);
  }
  put_out(build, &StepReport::guard_reason, out[StepGuard::kReason]);
  put_out(build, &StepReport::guard_skipped, out[StepGuard::kFirstState + 2]);
  put_out(build, &StepReport::guard_in_a_row, out[StepGuard::kFirstState + 3]);
  update.state.inputs.skip = out[StepGuard::kSkip];
  update.state.keeps_scale = out[StepGuard::kHeld];
}

}  // namespace

bool hides_nan(const Program& program) {
  const auto drops = [](const Node& node) {
    if (dynamic_cast<const FakeQuantize*>(node.op.get()) != nullptr ||
        dynamic_cast<const FakeQuantizeWeights*>(node.op.get()) != nullptr)
      return true;  // infinities saturate
    const auto* linear = dynamic_cast<const Linear*>(node.op.get());
    return linear != nullptr && linear->function == LinearFunction::relu_with_mask;
  };
  return std::ranges::any_of(program.entries,
                             [&](const Entry& entry) { return std::ranges::any_of(entry.nodes, drops); });
}

TensorId guard_skipped(Program& program) {
  return program.persistent(state_name::kGuardSkipped, kCounterSpec, Role::optimizer, {});
}
TensorId guard_in_a_row(Program& program) {
  return program.persistent(state_name::kGuardInARow, kCounterSpec, Role::optimizer, {});
}
TensorId guard_window(Program& program, const SpikeLimit& limit) {
  return program.persistent(state_name::kGuardWindow, {{2, limit.window}, DType::f32}, Role::optimizer, {});
}
TensorId guard_accepted(Program& program) {
  return program.persistent(state_name::kGuardAccepted, kCounterSpec, Role::optimizer, {});
}
TensorId guard_skip_steps(Program& program, const StepGuards& guards) {
  return program.persistent(state_name::kGuardSkipSteps,
                            {{static_cast<int64_t>(guards.skip_steps.size())}, DType::i32}, Role::optimizer,
                            {.kind = Initial::Kind::table,
                             .a = 0,
                             .b = 0,
                             .table = {guards.skip_steps.begin(), guards.skip_steps.end()}});
}

void guard_step(Update& update) {
  const StepGuards& guards = update.spec.guards;
  const bool is_scaled = scales_loss(update.program);
  // A limit of the norm reads all gradients anyway. Otherwise a NaN among them reaches the next loss.
  // All stages of a pipeline measure, whatever their own operations: they gather the norms together.
  const bool watches = guards.loss && (update.spec.optimizer->clip_norm || update.program.mesh.stages > 1 ||
                                       hides_nan(update.program));
  const TensorId norm = is_scaled || guards.counts || watches ? measure_gradients(update) : kNone;
  if (guards.counts) return append_counting_guard(update, norm);
  if (guards.loss) {
    append_guard(update);
  } else if (is_scaled) {
    update.state.inputs.skip = update.state.nonfinite;
  }
}

}  // namespace trainer
