// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "core/graph/builder.h"
#include "core/graph/ops/assign.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/loss_scale.h"
#include "core/graph/ops/optimizer_steps.h"
#include "core/optim/optimizer.h"
#include "core/step/copy_entry.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// f32 (updates), a constant.
constexpr const char* kAverageShares = "ema_table";

/// Whether training changes it and evaluation reads it: a parameter, or a running statistic. Ranges are
/// averages already.
bool is_averaged(const Tensor& tensor) {
  const bool learnt = tensor.role == Role::parameter || tensor.role == Role::state;
  return learnt && tensor.spec.dtype == DType::f32 && !tensor.name.ends_with(state_suffix::kRange);
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
  return program.beside(state, state_suffix::kAverage, Role::state);
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

/// The shares of the new weights in each update, until they no longer change: the decay is at most
/// (1 + t) / (10 + t), as in TensorFlow's ExponentialMovingAverage. The first entry is not used.
std::vector<double> shares_of_warmup(double decay, size_t updates) {
  std::vector<double> shares;
  for (size_t t = 0; t <= updates; ++t) {
    const auto count = static_cast<double>(t);
    shares.push_back(1 - std::min(decay, (1 + count) / (10 + count)));
    if (shares.back() == 1 - decay) break;
  }
  return shares;
}

/// Appends old + share * (fresh - old), (1) for the share of this update, or old if the step is skipped.
class WarmingAverage {
 public:
  WarmingAverage(Builder& build, const std::map<TensorId, TensorId>& values, TensorId skip, double decay,
                 size_t updates)
      : build_(build), skip_(skip) {
    std::vector<double> doubled = shares_of_warmup(decay, updates);
    for (double& share : doubled) share *= 2;
    const TensorId table = build.program().persistent(
        kAverageShares, {{static_cast<int64_t>(doubled.size())}, DType::f32}, Role::constant,
        {.kind = Initial::Kind::table, .a = 0, .b = 0, .table = doubled});
    const TensorId counter = update_counter(build.program());
    const auto counted = values.find(counter);
    doubled_share_ = build.emit<TableLookup>({table, counted == values.end() ? counter : counted->second});
  }

  TensorId append(TensorId old, TensorId fresh) {
    const TensorId half = build_.emit<Lerp>({fresh, old, kNone}, 0.5, -1);  // (fresh - old) / 2
    const TensorId step = build_.emit<MultiplyBy>({half, doubled_share_});
    return build_.emit<Lerp>({old, build_.emit<Binary>({old, step}, Binary::Kind::add), skip_}, 1);
  }

 private:
  Builder& build_;
  TensorId skip_, doubled_share_ = kNone;
};

/// `updates`: of the run, if the decay of its first ones is smaller; else 0.
void average(Program& program, double decay, size_t updates) {
  const std::map<TensorId, TensorId> averages = add_averages(program);
  Entry& entry = program.entry(updating_entry(program));
  const std::map<TensorId, TensorId> values = assigned_values(entry);
  const TensorId skip = skip_of(entry);
  Builder build(program, entry);
  build.set_phase(Phase::update);
  std::optional<WarmingAverage> warming;
  if (updates > 0) warming.emplace(build, values, skip, decay, updates);
  for (const auto& [state, averaged] : averages) {
    const auto changed = values.find(state);
    build.set_origin({{}, program.tensor(averaged).name});
    const TensorId now = changed == values.end() ? state : changed->second;
    build.assign(averaged, warming ? warming->append(averaged, now)
                                   : build.emit<Lerp>({averaged, now, skip}, 1 - decay));
  }
  add_evaluation(program, averages);
}

}  // namespace

Pass average_weights(double decay, size_t warmup_updates) {
  auto run = [=](Program& program) { average(program, decay, warmup_updates); };
  return {.name = "average_weights",
          .help = "keep running averages of the weights, and evaluate them too",
          .optional = false,
          .run = run,
          .after = {"update", "shard_optimizer", "guard_statistics", "prune"}};
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
