// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "core/graph/builder.h"
#include "core/graph/ops/binary.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// state := value on the first run, state + value on the others.
void sum_up(Program& program, Entry& entry, const char* state, TensorId value, bool first) {
  const TensorId sum = program.persistent(state, {{1}, DType::f32}, Role::gradient_sum, {});
  Builder build(program, entry);
  build.set_phase(Phase::backward);
  build.assign(sum, first ? value : build.emit<Binary>({sum, value}, Binary::Kind::add));
}

/// The loss and, if it counts, its weight.
void sum_loss(Program& program, Entry& entry, bool first) {
  const TensorId loss = entry.output(output_name::kLoss), weight = entry.output(output_name::kLossWeight);
  if (loss == kNone) throw std::logic_error("entry " + entry.name + " has no loss");
  sum_up(program, entry, state_name::kGuardLoss, loss, first);
  if (weight != kNone) sum_up(program, entry, state_name::kLossWeight, weight, first);
}

}  // namespace

Pass sum_losses() {
  auto run = [](Program& program) {
    if (program.find_entry(entry_name::kUpdate) == nullptr) return;
    sum_loss(program, program.entry(entry_name::kAccumulateFirst), true);
    sum_loss(program, program.entry(entry_name::kAccumulateNext), false);
  };
  return {.name = "sum_losses",
          .help = "sum the loss over the micro-batches of a step, for its guard and for other ranks",
          .optional = false,
          .run = run,
          .after = {"accumulate"}};
}

}  // namespace trainer
