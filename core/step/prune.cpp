// SPDX-License-Identifier: Apache-2.0
#include "core/step/prune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/config/patterns.h"
#include "core/graph/builder.h"
#include "core/graph/names.h"
#include "core/graph/operation.h"
#include "core/graph/ops/apply_mask.h"
#include "core/graph/ops/assign.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// A weight's dimension of input features, and over how many of them an output sums.
struct InputFeatures {
  size_t dimension = 0;
  int64_t of_output = 1;
};

struct TrainedWeight {
  PrunedWeight weight;
  int64_t input_features = 1;  ///< of an output
};

/// The inputs of a node that are weights of its products. An output of a depthwise convolution has one input
/// channel, and its weights need not have a dimension for that.
std::map<size_t, InputFeatures> weights_of(const Program& program, const Node& node) {
  const NodeSpecs specs = node_specs(program, node);
  std::map<size_t, InputFeatures> read;
  std::set<size_t> made;
  for (const ChannelLink& link : node.op->channel_links(specs.inputs, specs.outputs)) {
    for (const ChannelPlace& place : link.places) {
      if (place.use == ChannelUse::reads)
        read.emplace(place.operand, InputFeatures{.dimension = place.dimension, .of_output = link.channels});
      if (place.use == ChannelUse::makes) made.insert(place.operand);
    }
  }
  for (const size_t operand : made) read.try_emplace(operand);
  return read;
}

/// Weights of products that training changes.
std::vector<TrainedWeight> trained_weights(const Program& program) {
  std::map<TensorId, InputFeatures> weights;
  std::set<TensorId> tables;
  for (const Entry& entry : program.entries) {
    for (const Node& node : entry.nodes) {
      if (const auto table = node.op->table_input()) tables.insert(node.inputs[*table]);
      for (const auto& [operand, features] : weights_of(program, node)) {
        const Tensor& tensor = program.tensor(node.inputs[operand]);
        if (tensor.role == Role::parameter && !tensor.frozen) weights.emplace(node.inputs[operand], features);
      }
    }
  }
  std::vector<TrainedWeight> found;
  for (const auto& [id, features] : weights) {
    if (tables.contains(id)) continue;
    found.push_back({.weight = {.name = program.tensor(id).name, .dimension = features.dimension},
                     .input_features = features.of_output});
  }
  return found;
}

/// Throws unless each output has a multiple of four input features: the four may not be of several outputs.
void require_fours(const Program& program, const std::vector<TrainedWeight>& weights, const PruneSpec& spec) {
  std::vector<std::string> odd;
  for (const TrainedWeight& trained : weights) {
    if (trained.input_features % 4 == 0) continue;
    const std::string& name = trained.weight.name;
    odd.push_back(fmt::format("{} {} ({})", name, to_string(program.spec(program.find(name)).shape),
                              trained.input_features));
  }
  if (odd.empty()) return;
  fail_at(spec.origin_of("pattern"),
          fmt::format("2:4 takes two of four neighbours along the input channels of an output, and their "
                      "number is no multiple of four in {}; name {} in compression.prune.except",
                      fmt::join(odd, ", "), odd.size() == 1 ? "it" : "them"));
}

int64_t elements_of(const Program& program, const std::vector<PrunedWeight>& weights) {
  int64_t count = 0;
  for (const PrunedWeight& weight : weights) count += numel(program.spec(program.find(weight.name)).shape);
  return count;
}

/// The mask of a weight, which begins with ones.
TensorId mask_of(Program& program, TensorId weight) {
  const Tensor& tensor = program.tensor(weight);
  return program.persistent(tensor.name + state_suffix::kMask, {tensor.spec.shape, DType::u8}, Role::state,
                            {.kind = Initial::Kind::fill, .a = 1, .b = 0, .table = {}});
}

/// Appends the value without what the weight's mask takes out.
TensorId append_mask(Builder& build, TensorId weight, TensorId value, const Location& where) {
  const TensorId mask = mask_of(build.program(), weight);
  build.set_origin({where, build.program().tensor(mask).name});
  return build.emit<ApplyMask>({value, mask});
}

/// A weight that the loss does not depend on has no gradient, and training does not prune it.
void mask_gradients(Program& program, Entry& entry) {
  std::set<std::string> found;
  Builder build(program, entry);
  build.set_phase(Phase::update);
  for (ParameterGradient& pair : entry.gradients) {
    const std::string name = program.tensor(pair.parameter).name;
    if (std::ranges::find(program.pruned, name, &PrunedWeight::name) == program.pruned.end()) continue;
    pair.gradient = append_mask(build, pair.parameter, pair.gradient, {});
    found.insert(name);
  }
  std::erase_if(program.pruned, [&](const PrunedWeight& weight) { return !found.contains(weight.name); });
  program.remarks.push_back(
      fmt::format("compression.prune: masks cover {} weights in {} tensors; products multiply the zeros too, "
                  "so masks save neither time nor memory",
                  elements_of(program, program.pruned), program.pruned.size()));
}

/// Puts a mask between each pruned weight's new value and the assignment of it.
void mask_weights(Program& program, Entry& entry) {
  const std::vector<Node> nodes = std::exchange(entry.nodes, {});
  Builder build(program, entry);
  build.set_phase(Phase::update);
  for (const Node& node : nodes) {
    const bool assigns = dynamic_cast<const Assign*>(node.op.get()) != nullptr;
    const TensorId state = assigns ? node.inputs[Assign::kState] : kNone;
    const bool is_pruned = assigns && std::ranges::find(program.pruned, program.tensor(state).name,
                                                        &PrunedWeight::name) != program.pruned.end();
    if (is_pruned) {
      build.assign(state, append_mask(build, state, node.inputs[Assign::kValue], node.origin.where));
    } else {
      entry.nodes.push_back(node);
    }
  }
}

}  // namespace

std::vector<PrunedWeight> pruned_weights(const Program& program, const PruneSpec& spec) {
  std::vector<TrainedWeight> weights = trained_weights(program);
  std::vector<std::string> names;
  for (const TrainedWeight& trained : weights) names.push_back(trained.weight.name);
  Diagnostics diagnostics;
  check_patterns(spec.only, names, "trained weight of a convolution or linear layer", spec.origin_of("only"),
                 diagnostics);
  check_patterns(spec.except, names, "trained weight of a convolution or linear layer",
                 spec.origin_of("except"), diagnostics);
  diagnostics.throw_if_any();
  std::erase_if(weights, [&](const TrainedWeight& trained) {
    const std::string& name = trained.weight.name;
    return (!spec.only.empty() && !matches_any(spec.only, name)) || matches_any(spec.except, name);
  });
  if (weights.empty()) {
    fail_at(spec.origin_of(""),
            names.empty()
                ? "there is nothing to prune: training changes no weight of a convolution or linear "
                  "layer; remove compression.prune"
                : "there is nothing to prune: only and except leave no weight; change them");
  }
  if (spec.two_of_four) require_fours(program, weights, spec);
  std::vector<PrunedWeight> pruned;
  for (const TrainedWeight& trained : weights) pruned.push_back(trained.weight);
  return pruned;
}

Pass choose_pruned(const PruneSpec& spec) {
  return {.name = "choose_pruned",
          .help = "decide which weights compression.prune takes out",
          .optional = false,
          .run = [spec](Program& program) { program.pruned = pruned_weights(program, spec); },
          .after = {"loss"}};
}

Pass prune_gradients() {
  auto run = [](Program& program) { mask_gradients(program, program.entry(updating_entry(program))); };
  return {.name = "prune_gradients",
          .help = "take pruned weights out of norms and moments (compression.prune)",
          .optional = false,
          .run = run,
          .after = {"choose_pruned", "mean_loss"}};
}

Pass prune() {
  auto run = [](Program& program) { mask_weights(program, program.entry(updating_entry(program))); };
  return {.name = "prune",
          .help = "keep pruned weights at zero (compression.prune)",
          .optional = false,
          .run = run,
          .after = {"prune_gradients", "update", "shard_optimizer"}};
}

}  // namespace trainer
