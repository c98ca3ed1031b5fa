// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operation.h"
#include "core/graph/ops/binary.h"
#include "core/step/copy_entry.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// The sum of a parameter's gradients so far. It persists between the runs of one step.
TensorId sum_of(Program& program, const ParameterGradient& pair) {
  return program.beside(pair.parameter, state_suffix::kGradientSum, Role::gradient_sum);
}

/// sum := gradient on the first run, sum := sum + gradient on the others.
void append_sums(Program& program, Entry& entry, bool first) {
  Builder build(program, entry);
  build.set_phase(Phase::backward);
  build.set_role(Role::gradient);
  for (const ParameterGradient& pair : entry.gradients) {
    const TensorId sum = sum_of(program, pair);
    build.assign(sum, first ? pair.gradient : build.emit<Binary>({sum, pair.gradient}, Binary::Kind::add));
  }
  entry.gradients.clear();
}

void split(Program& program) {
  Entry next = copy_entry(program, program.entry(entry_name::kTrainStep), entry_name::kAccumulateNext);
  Entry update(entry_name::kUpdate);
  for (const ParameterGradient& pair : next.gradients) {
    update.gradients.push_back({pair.parameter, sum_of(program, pair)});
  }
  append_sums(program, next, false);
  Entry& first = program.entry(entry_name::kTrainStep);
  first.name = entry_name::kAccumulateFirst;
  append_sums(program, first, true);
  const auto position = program.entries.begin() + (&first - program.entries.data()) + 1;
  program.entries.insert(program.entries.insert(position, std::move(update)), std::move(next));
}

}  // namespace

Pass accumulate(int64_t micro_batches) {
  auto run = [micro_batches](Program& program) {
    if (micro_batches > 1) split(program);
  };
  return {.name = "accumulate",
          .help = "sum gradients over the micro-batches of a step",
          .optional = false,
          .run = run,
          .after = {"autodiff", "fuse_classifier", "sync_batch_norm", "recompute"}};
}

}  // namespace trainer
