// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/checksum.h"
#include "core/graph/builder.h"
#include "core/graph/ops/exchange.h"
#include "core/optim/muon.h"
#include "core/passes/uses.h"
#include "core/step/stages.h"
#include "core/step/stages_of_nodes.h"

namespace trainer {
namespace {

/// Takes the nodes of other ranks out of an entry.
class Selection {
 public:
  Selection(Program& program, Entry& entry, const PipelineSchedule& schedule, int64_t position)
      : program_(program), entry_(entry), schedule_(schedule), position_(position) {}

  void run() {
    const std::vector<std::set<int64_t>> stages = stages_of_nodes(entry_, schedule_);
    std::vector<Node> nodes;
    std::vector<NamedTensor> sent;
    for (size_t n = 0; n < entry_.nodes.size(); ++n) {
      Node& node = entry_.nodes[n];
      if (const auto* exchange = dynamic_cast<const Exchange*>(node.op.get())) {
        pass_on(*exchange, node, nodes, sent);
      } else if (stages[n].empty() || std::ranges::any_of(stages[n], [&](int64_t s) { return is_own(s); })) {
        made_.insert(node.outputs.begin(), node.outputs.end());
        nodes.push_back(std::move(node));
      }
    }
    entry_.nodes = std::move(nodes);
    select_results();
    entry_.outputs.insert(entry_.outputs.end(), sent.begin(), sent.end());
  }

 private:
  bool is_own(int64_t stage) const { return schedule_.rank_of(stage) == position_; }

  /// The sender's output, or the receiver's Receive. Between two stages of this rank the node stays.
  void pass_on(const Exchange& exchange, const Node& node, std::vector<Node>& nodes,
               std::vector<NamedTensor>& sent) {
    const size_t route = entry_.routes.size();
    entry_.routes.push_back({exchange.from, exchange.to, node.phase != Phase::forward});
    const TensorId x = node.inputs[Exchange::kX], y = node.outputs[Exchange::kY];
    if (is_own(exchange.from) && is_own(exchange.to)) {
      made_.insert(y);
      nodes.push_back(node);
    } else if (is_own(exchange.from)) {
      sent.push_back({sent_name(route), x});
    } else if (is_own(exchange.to)) {
      made_.insert(y);
      nodes.push_back({.op = std::make_shared<Receive>(route, program_.spec(y)),
                       .inputs = {},
                       .outputs = {y},
                       .origin = node.origin,
                       .phase = node.phase});
    }
  }

  /// The gradients and outputs that are made here. Further outputs are zero, so that sums over the stages are
  /// those of the last one.
  void select_results() {
    std::erase_if(entry_.outputs,
                  [](const NamedTensor& output) { return output.name == output_name::kLogits; });
    for (NamedTensor& output : entry_.outputs) {
      if (made_.contains(output.tensor) || is_from_outside(program_.tensor(output.tensor).role)) continue;
      output.tensor = program_.persistent(fmt::format("zero.{}.{}", entry_.name, output.name),
                                          TensorSpec(program_.spec(output.tensor)), Role::constant, {});
    }
    std::erase_if(entry_.gradients,
                  [&](const ParameterGradient& pair) { return !made_.contains(pair.gradient); });
  }

  Program& program_;
  Entry& entry_;
  const PipelineSchedule& schedule_;
  int64_t position_;
  std::set<TensorId> made_;  ///< by the nodes that stay
};

/// A parameter's name in the network: of several that are copies of one, that of all.
std::string common_name(const Tensor& tensor) {
  return tensor.stages.empty() ? tensor.name : tensor.name.substr(0, tensor.name.rfind('@'));
}

void note_whole(Program& program) {
  WholeNetwork& whole = *program.whole;
  const std::set<TensorId> spared = tables_and_last_layers(program);
  std::set<std::string> known;
  for (TensorId id = 0; std::cmp_less(id, program.tensors.size()); ++id) {
    const Tensor& tensor = program.tensor(id);
    if (tensor.role != Role::parameter) continue;
    const std::string name = common_name(tensor);
    if (known.insert(name).second) whole.parameters.push_back(name);
    if (spared.contains(id)) whole.tables_and_last_layers.insert(name);
  }
  const std::string text = to_text(program);
  whole.checksum = checksum(std::as_bytes(std::span(text)));
}

/// Forgets named tensors that no entry reads; all updates read the scale of the loss.
void forget_others(Program& program) {
  const std::vector<bool> read = are_read(program);
  for (TensorId id = 0; std::cmp_less(id, program.tensors.size()); ++id) {
    const Tensor& tensor = program.tensor(id);
    if (!tensor.name.empty() && !read[static_cast<size_t>(id)] && tensor.role != Role::optimizer)
      program.forget(id);
  }
}

/// Of parameters that several ranks hold, this rank's has the name of all.
void name_own(Program& program, int64_t position) {
  const std::string suffix = fmt::format("@{}", position);
  for (TensorId id = 0; std::cmp_less(id, program.tensors.size()); ++id) {
    const Tensor& tensor = program.tensor(id);
    if (!tensor.stages.empty() && tensor.name.ends_with(suffix))
      program.rename(id, tensor.name.substr(0, tensor.name.size() - suffix.size()));
  }
}

}  // namespace

Pass own_stage(const PipelineSchedule& schedule, const Mesh& mesh, int64_t position) {
  auto run = [=](Program& program) {
    note_whole(program);
    program.mesh = mesh;
    program.stage = position;
    for (Entry& entry : program.entries) Selection(program, entry, schedule, position).run();
    forget_others(program);
    name_own(program, position);
  };
  return {.name = "own_stage",
          .help = "leave what this rank computes of the pipeline",
          .optional = false,
          .run = run,
          .after = {"cut_stages", "autodiff", "recompute", "gather_again", "sync_batch_norm"}};
}

}  // namespace trainer
