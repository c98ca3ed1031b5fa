// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/graph/builder.h"
#include "core/graph/ops/exchange.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// Assigns nodes to stages, and inserts an exchange wherever a node reads what another stage makes. A
/// parameter that several ranks read becomes one parameter on each: each has its own gradient, and sum_stages
/// adds these up.
class Cutting {
 public:
  Cutting(Program& program, const PipelineSchedule& schedule, std::map<std::string, int64_t> stages)
      : program_(program), schedule_(schedule), stages_(std::move(stages)) {}

  void run() {
    for (Entry& entry : program_.entries) cut(entry);
    for (const auto& [key, copy] : copies_) note_holders(key.first, copy);
  }

 private:
  using Key = std::pair<TensorId, int64_t>;

  void cut(Entry& entry) {
    made_.clear();
    sent_.clear();
    Builder build(program_, entry);
    const std::vector<Node> nodes = std::exchange(entry.nodes, {});
    for (Node node : nodes) {
      build.set_origin(node.origin);
      build.set_phase(node.phase);
      const int64_t stage = stage_of(node);
      for (TensorId& id : node.inputs) id = present(build, id, stage);
      for (const TensorId id : node.outputs) {
        if (id != kNone) made_[id] = stage;
      }
      build.entry().nodes.push_back(std::move(node));
    }
    for (NamedTensor& output : entry.outputs)
      output.tensor = present(build, output.tensor, schedule_.stages() - 1);
  }

  /// A node runs in the stage of its layer, or in a later one if it reads that one's results. The loss runs
  /// in the last stage.
  int64_t stage_of(const Node& node) const {
    const auto layer = stages_.find(node.origin.path);
    int64_t stage = layer == stages_.end() ? schedule_.stages() - 1 : layer->second;
    for (const TensorId id : node.inputs) {
      if (const auto made = made_.find(id); made != made_.end()) stage = std::max(stage, made->second);
    }
    return stage;
  }

  /// The tensor to read in a stage.
  TensorId present(Builder& build, TensorId id, int64_t stage) {
    if (id == kNone) return id;
    if (program_.tensor(id).role == Role::parameter) return parameter_in(id, schedule_.rank_of(stage));
    const auto made = made_.find(id);
    if (made == made_.end() || made->second == stage) return id;
    const auto [known, fresh] = sent_.try_emplace({id, stage}, kNone);
    if (fresh) known->second = build.emit<Exchange>({id}, made->second, stage);
    return known->second;
  }

  TensorId parameter_in(TensorId id, int64_t rank) {
    const auto [home, first] = homes_.try_emplace(id, rank);
    if (first || home->second == rank) return id;
    const auto [known, fresh] = copies_.try_emplace({id, rank}, kNone);
    if (fresh) {
      Tensor copy = program_.tensor(id);
      copy.name += fmt::format("@{}", rank);
      known->second = program_.add(std::move(copy));
    }
    return known->second;
  }

  void note_holders(TensorId id, TensorId copy) {
    std::vector<int64_t> holders = {homes_.at(id)};
    for (const auto& [key, other] : copies_) {
      if (key.first == id) holders.push_back(key.second);
    }
    for (const TensorId each : {id, copy}) program_.tensors[static_cast<size_t>(each)].stages = holders;
  }

  Program& program_;
  const PipelineSchedule& schedule_;
  std::map<std::string, int64_t> stages_;  ///< by the path of a layer
  std::map<TensorId, int64_t> made_;       ///< by tensor the stage that makes it
  std::map<Key, TensorId> sent_;           ///< by tensor and stage
  std::map<TensorId, int64_t> homes_;      ///< by parameter the first rank that reads it
  std::map<Key, TensorId> copies_;         ///< by parameter and rank
};

}  // namespace

Pass cut_stages(const Network& network, const PipelineSpec& spec) {
  auto run = [&network, spec](Program& program) {
    const std::vector<int64_t> stages = stages_of_layers(network, program, spec);
    program.whole = WholeNetwork{.stages_of_layers = stages, .parameters = {}, .tables_and_last_layers = {}};
    std::map<std::string, int64_t> by_path;
    for (size_t i = 0; i < stages.size(); ++i) by_path.emplace(network.layers[i]->origin.path, stages[i]);
    Cutting(program, spec.schedule, std::move(by_path)).run();
  };
  return {
      .name = "cut_stages",
      .help = "divide the layers into stages, which ranks compute one after another (parallelism.pipeline)",
      .optional = false,
      .run = run,
      .after = {"loss", "tensor_parallel"}};
}

}  // namespace trainer
