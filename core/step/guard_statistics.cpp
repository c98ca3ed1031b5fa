// SPDX-License-Identifier: Apache-2.0
#include "core/graph/builder.h"
#include "core/graph/ops/keep.h"
#include "core/graph/ops/lerp.h"
#include "core/step/running_statistics.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// If one entry does everything, statistics are updated at its end, with the forward part's results.
void put_off(Program& program, Entry& entry, TensorId skip) {
  const std::vector<Statistic> statistics = statistics_of(program, entry);
  remove_moves(entry, statistics);
  Builder build(program, entry);
  build.set_phase(Phase::update);
  for (const Statistic& each : statistics) {
    build.set_origin(each.lerp.origin);
    const auto value =
        build.emit_all(each.lerp.op, {each.lerp.inputs[Lerp::kOld], each.lerp.inputs[Lerp::kFresh], skip});
    build.assign(each.state, value[0]);
  }
}

/// With micro-batches, each updates the statistics left by the one before. Their values from before the step
/// are kept, and restored if the step is skipped.
void restore(Program& program, Entry& update, TensorId skip) {
  Entry copies("");
  Entry& first = program.entry(entry_name::kAccumulateFirst);
  Builder keep(program, copies), build(program, update);
  build.set_phase(Phase::update);
  for (const Statistic& each : statistics_of(program, first)) {
    const Tensor statistic = program.tensor(each.state);
    const TensorId before =
        program.persistent(statistic.name + state_suffix::kBefore, statistic.spec, Role::gradient_sum, {});
    keep.set_origin(each.lerp.origin);
    keep.assign(before, each.state);
    build.set_origin(each.lerp.origin);
    build.assign(each.state, build.emit<Keep>({before, each.state, skip}));
  }
  for (Entry& entry : program.entries) {
    if (entry.name == entry_name::kAccumulateFirst || entry.name == entry_name::kAccumulateOnly)
      entry.nodes.insert(entry.nodes.begin(), copies.nodes.begin(), copies.nodes.end());
  }
}

}  // namespace

Pass guard_statistics() {
  auto run = [](Program& program) {
    Entry& updating = program.entry(updating_entry(program));
    const TensorId skip = skip_of(updating);
    if (skip == kNone) return;
    if (updating.name == entry_name::kUpdate) {
      restore(program, updating, skip);
    } else {
      put_off(program, updating, skip);
    }
  };
  return {.name = "guard_statistics",
          .help = "leave running statistics as they were in a step that is skipped",
          .optional = false,
          .run = run,
          .after = {"update"}};
}

}  // namespace trainer
