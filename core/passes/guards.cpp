// SPDX-License-Identifier: Apache-2.0
#include "core/passes/guards.h"

#include <stdexcept>

#include "core/graph/builder.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/blend.h"
#include "core/graph/ops/keep.h"
#include "core/graph/ops/optimizer_steps.h"
#include "core/graph/ops/step_guard.h"
#include "core/passes/statistics.h"
#include "core/passes/table.h"

namespace trainer {
namespace {

/// state := value on the first run, state + value on the others.
void sum_up(Program& program, Entry& entry, const char* state, TensorId value, bool first) {
  const TensorId sum = program.persistent(state, {{1}, DType::f32}, Role::gradient_sum, {});
  Builder build(program, entry);
  build.set_phase(Phase::backward);
  build.assign(sum, first ? value : build.emit<Binary>({sum, value}, Binary::Kind::add));
}

/// The loss and, where it counts, its weight.
void sum_loss(Program& program, Entry& entry, bool first) {
  const TensorId loss = entry.output(output_name::kLoss), weight = entry.output(output_name::kLossWeight);
  if (loss == kNone) throw std::logic_error("entry " + entry.name + " has no loss");
  sum_up(program, entry, state_name::kGuardLoss, loss, first);
  if (weight != kNone) sum_up(program, entry, state_name::kLossWeight, weight, first);
}

/// Where one entry does everything, statistics move at its end, by what the forward part has found.
void put_off(Program& program, Entry& entry, TensorId skip) {
  const std::vector<Statistic> statistics = statistics_of(program, entry);
  remove_moves(entry, statistics);
  Builder build(program, entry);
  build.set_phase(Phase::update);
  for (const Statistic& each : statistics) {
    build.set_origin(each.blend.origin);
    const auto value = build.emit_all(
        each.blend.op, {each.blend.inputs[Blend::kOld], each.blend.inputs[Blend::kFresh], skip});
    build.assign(each.state, value[0]);
  }
}

/// With micro-batches each moves the statistics that the one before has left. What they were before the step
/// is kept, and comes back where the step is skipped.
void restore(Program& program, Entry& first, Entry& update, TensorId skip) {
  Entry copies("");
  Builder keep(program, copies), build(program, update);
  build.set_phase(Phase::update);
  for (const Statistic& each : statistics_of(program, first)) {
    const Tensor statistic = program.tensor(each.state);
    const TensorId before =
        program.persistent(statistic.name + state_suffix::kBefore, statistic.spec, Role::gradient_sum, {});
    keep.set_origin(each.blend.origin);
    keep.assign(before, each.state);
    build.set_origin(each.blend.origin);
    build.assign(each.state, build.emit<Keep>({before, each.state, skip}));
  }
  first.nodes.insert(first.nodes.begin(), copies.nodes.begin(), copies.nodes.end());
}

}  // namespace

TensorId skip_of(const Entry& entry) {
  for (const Node& node : entry.nodes) {
    if (dynamic_cast<const OptimizerStep*>(node.op.get()) != nullptr)
      return node.inputs[OptimizerStep::kSkip];
  }
  return kNone;
}

Pass sum_losses() {
  auto run = [](Program& program) {
    if (program.find_entry(entry_name::kUpdate) == nullptr) return;
    sum_loss(program, program.entry(entry_name::kAccumulateFirst), true);
    sum_loss(program, program.entry(entry_name::kAccumulateNext), false);
  };
  return {.name = "sum_losses",
          .help = "sum the loss over the micro-batches of a step, for its guard and for other ranks",
          .optional = false,
          .run = run};
}

Pass guard_statistics() {
  auto run = [](Program& program) {
    Entry& updating = program.entry(updating_entry(program));
    const TensorId skip = skip_of(updating);
    if (skip == kNone) return;
    if (updating.name == entry_name::kUpdate) {
      restore(program, program.entry(entry_name::kAccumulateFirst), updating, skip);
    } else {
      put_off(program, updating, skip);
    }
  };
  return {.name = "guard_statistics",
          .help = "leave running statistics as they were in a step that is skipped",
          .optional = false,
          .run = run};
}

std::optional<Pass> sum_losses_pass(const PassOptions& options) {
  const bool is_read = options.watches_loss || options.ranks > 1;
  return options.trains && is_read ? std::optional(sum_losses()) : std::nullopt;
}

std::optional<Pass> guard_statistics_pass(const PassOptions& options) {
  return options.trains && options.may_skip ? std::optional(guard_statistics()) : std::nullopt;
}

}  // namespace trainer
