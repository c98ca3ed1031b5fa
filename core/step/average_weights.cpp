// SPDX-License-Identifier: Apache-2.0
#include "core/graph/builder.h"
#include "core/graph/ops/assign.h"
#include "core/graph/ops/lerp.h"
#include "core/step/copy_entry.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// Whether training changes it and evaluation reads it: a parameter, or a running statistic.
bool is_averaged(const Tensor& tensor) {
  const bool learnt = tensor.role == Role::parameter || tensor.role == Role::state;
  return learnt && tensor.spec.dtype == DType::f32;
}

/// The value that each state has once the entry has run, by state.
std::map<TensorId, TensorId> assigned_values(const Entry& entry) {
  std::map<TensorId, TensorId> values;
  for (const Node& node : entry.nodes) {
    if (dynamic_cast<const Assign*>(node.op.get()) != nullptr)
      values[node.inputs[Assign::kState]] = node.inputs[Assign::kValue];
  }
  return values;
}

TensorId add_average(Program& program, TensorId state) {
  const std::string name = program.tensor(state).name + state_suffix::kAverage;
  return program.persistent(name, TensorSpec(program.spec(state)), Role::state, {});
}

/// The average of each tensor that any entry changes. It begins as a copy, which the caller that runs the
/// program makes.
std::map<TensorId, TensorId> add_averages(Program& program) {
  std::map<TensorId, TensorId> averages;
  for (const Entry& entry : program.entries) {
    for (const auto& [state, value] : assigned_values(entry)) {
      if (is_averaged(program.tensor(state))) averages[state] = add_average(program, state);
    }
  }
  return averages;
}

/// `evaluate` with each averaged tensor replaced by its average.
void add_evaluation(Program& program, const std::map<TensorId, TensorId>& averages) {
  program.entries.push_back(
      copy_entry(program, program.entry(entry_name::kEvaluate), entry_name::kEvaluateAverages, averages));
}

void average(Program& program, double decay) {
  const std::map<TensorId, TensorId> averages = add_averages(program);
  Entry& entry = program.entry(updating_entry(program));
  const std::map<TensorId, TensorId> values = assigned_values(entry);
  const TensorId skip = skip_of(entry);
  Builder build(program, entry);
  build.set_phase(Phase::update);
  for (const auto& [state, averaged] : averages) {
    const auto changed = values.find(state);
    build.set_origin({{}, program.tensor(averaged).name});
    const TensorId now = changed == values.end() ? state : changed->second;
    build.assign(averaged, build.emit<Lerp>({averaged, now, skip}, 1 - decay));
  }
  add_evaluation(program, averages);
}

}  // namespace

Pass average_weights(double decay) {
  auto run = [decay](Program& program) { average(program, decay); };
  return {.name = "average_weights",
          .help = "keep running averages of the weights, and evaluate them too",
          .optional = false,
          .run = run,
          .after = {"update", "shard_optimizer", "guard_statistics"}};
}

Pass given_averages() {
  auto run = [](Program& program) {
    std::map<TensorId, TensorId> averages;
    const auto count = static_cast<TensorId>(program.tensors.size());
    for (TensorId id = 0; id < count; ++id) {
      if (is_averaged(program.tensor(id))) averages[id] = add_average(program, id);
    }
    add_evaluation(program, averages);
  };
  return {.name = "given_averages",
          .help = "evaluate averages of the weights that another run has kept",
          .optional = false,
          .run = run};
}

}  // namespace trainer
