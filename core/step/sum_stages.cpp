// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/exchange.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// The search for a NaN leaves a step at the first node of its update: nothing may be in flight there.
constexpr Phase kPhase = Phase::backward;

/// Replaces the gradients of parameters that several stages hold by their sums, in the order of the stages.
class TiedSums {
 public:
  TiedSums(Program& program, Entry& update) : program_(program), build_(program, update) {
    build_.set_phase(kPhase);
    build_.set_role(Role::gradient);
  }

  void run() {
    std::map<std::string, ParameterGradient*> tied;  // in one order on all ranks
    for (ParameterGradient& pair : build_.entry().gradients) {
      if (program_.tensor(pair.parameter).stages.size() > 1)
        tied[program_.tensor(pair.parameter).name] = &pair;
    }
    if (tied.empty()) return;
    for (const auto& [name, pair] : tied) add_peers(*pair);
    const int64_t number = next_collective(build_.entry());
    const std::vector<TensorId> started =
        build_.emit_all(std::make_shared<ExchangeStart>(number, to_, from_), sent_);
    std::vector<TensorId> in_flight = started;
    in_flight.insert(in_flight.end(), sent_.begin(), sent_.end());
    const std::vector<TensorId> received =
        build_.emit_all(std::make_shared<CollectiveDone>(number, started.size(), sent_.size()), in_flight);
    size_t next = 0;
    for (const auto& [name, pair] : tied) add_up(*pair, received, next);
  }

 private:
  std::vector<int64_t> holders(const ParameterGradient& pair) const {
    std::vector<int64_t> all = program_.tensor(pair.parameter).stages;
    std::ranges::sort(all);
    return all;
  }

  void add_peers(const ParameterGradient& pair) {
    for (const int64_t other : holders(pair)) {
      if (other == program_.stage) continue;
      sent_.push_back(pair.gradient);
      to_.push_back({other, 0});
      from_.push_back({.from = {other, 0}, .spec = program_.spec(pair.gradient)});
    }
  }

  void add_up(ParameterGradient& pair, const std::vector<TensorId>& received, size_t& next) {
    TensorId sum = kNone;
    for (const int64_t holder : holders(pair)) {
      const TensorId gradient = holder == program_.stage ? pair.gradient : received[next++];
      sum = sum == kNone ? gradient : build_.emit<Binary>({sum, gradient}, Binary::Kind::add);
    }
    pair.gradient = sum;
  }

  Program& program_;
  Builder build_;
  std::vector<TensorId> sent_;
  std::vector<Peer> to_;
  std::vector<ExchangeStart::Received> from_;
};

/// A sum over the micro-batches becomes an output with the sum over the stages too.
void sum_output(Program& program, Entry& update, const char* state, const char* output) {
  const TensorId own = program.find(state);
  if (own == kNone) return;
  Builder build(program, update);
  build.set_phase(kPhase);
  update.outputs.push_back(
      {output, build.emit<AllReduce>({own}, Along{Axis::pipeline, program.mesh.stages})});
}

}  // namespace

Pass sum_stages() {
  auto run = [](Program& program) {
    Entry& update = program.entry(entry_name::kUpdate);
    sum_output(program, update, state_name::kGuardLoss, output_name::kLoss);
    sum_output(program, update, state_name::kLossWeight, output_name::kLossWeight);
    TiedSums(program, update).run();
  };
  return {.name = "sum_stages",
          .help = "add up the loss, and gradients of parameters that several stages hold, over the stages",
          .optional = false,
          .run = run,
          .after = {"own_stage", "sum_losses", "data_parallel"}};
}

}  // namespace trainer
