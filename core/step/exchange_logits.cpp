// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <vector>

#include "core/graph/builder.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/logit_sums.h"
#include "core/graph/ops/own_part.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

class LogitExchange {
 public:
  LogitExchange(Program& program, Entry& entry) : build_(program, entry) {}

  void run() {
    std::vector<Node> nodes;
    nodes.swap(build_.entry().nodes);
    for (Node& node : nodes) {
      for (TensorId& id : node.inputs) id = present(id);
      build_.set_origin(node.origin);
      build_.set_phase(node.phase);
      if (dynamic_cast<const SharedWork*>(node.op.get()) != nullptr) {
        same_[node.outputs[SharedWork::kY]] = node.inputs[SharedWork::kX];
        continue;
      }
      make_of_ranks(node);
      build_.entry().nodes.push_back(std::move(node));
    }
    for (NamedTensor& output : build_.entry().outputs) output.tensor = present(output.tensor);
    for (ParameterGradient& pair : build_.entry().gradients) pair.gradient = present(pair.gradient);
  }

 private:
  TensorId present(TensorId id) const {
    const auto known = same_.find(id);
    return known == same_.end() ? id : known->second;
  }

  /// Turns a node that judges cut logits into one that reads what all ranks found in their parts.
  void make_of_ranks(Node& node) {
    const std::vector<TensorId> in = node.inputs;
    if (const auto* loss = dynamic_cast<const CrossEntropy*>(node.op.get()); loss != nullptr && loss->cut) {
      using From = CrossEntropy;
      const TensorId all =
          sums(*loss->cut, {in[From::kLogits], in[From::kLabels], in[From::kOtherLabels], kNone});
      node.inputs = {all, in[From::kLabels], in[From::kWeights], in[From::kOtherLabels],
                     in[From::kMixWeights]};
      node.op = std::make_shared<CrossEntropyOfRanks>(loss->label_smoothing, *loss->cut);
    } else if (const auto* of = dynamic_cast<const CrossEntropySums*>(node.op.get());
               of != nullptr && of->cut) {
      using From = CrossEntropySums;
      const TensorId all =
          sums(*of->cut, {in[From::kLogits], in[From::kLabels], kNone, in[From::kClassWeights]});
      node.inputs = {all, in[From::kLabels], in[From::kWeights], in[From::kClassWeights]};
      node.op = std::make_shared<CrossEntropySumsOfRanks>(of->settings, *of->cut);
    } else if (const auto* top = dynamic_cast<const TopK*>(node.op.get()); top != nullptr && top->cut) {
      using From = TopK;
      const TensorId all = sums(*top->cut, {in[From::kLogits], in[From::kLabels], kNone, kNone});
      const TensorId own = build_.emit<ClassesBefore>({in[From::kLogits], in[From::kLabels], all}, *top->cut);
      const TensorId before = build_.emit<AllReduce>({own}, top->cut->along);
      node.inputs = {before, all, in[From::kLabels], in[From::kWeights]};
      node.op = std::make_shared<TopKOfRanks>(top->k, top->ignored, *top->cut);
    }
  }

  /// What the ranks found in their parts of the logits, for these inputs of logit_sums.
  TensorId sums(const ClassCut& cut, const std::vector<TensorId>& inputs) {
    const auto [known, fresh] = sums_.try_emplace(inputs, kNone);
    if (!fresh) return known->second;
    const TensorId own = build_.emit<LogitSums>(inputs, cut);
    const Shape rows = build_.shape(own);
    const Shape all{cut.along.ranks, rows[0], rows[1]};
    return known->second = build_.emit<AllGather>({own}, cut.along, all, Work::repeated);
  }

  Builder build_;
  std::map<TensorId, TensorId> same_;
  std::map<std::vector<TensorId>, TensorId> sums_;
};

}  // namespace

Pass exchange_logits() {
  return {.name = "exchange_logits",
          .help = "compute the loss of logits that ranks share, of each rank's sums (parallelism.tensor)",
          .optional = false,
          .run =
              [](Program& program) {
                for (Entry& entry : program.entries) LogitExchange(program, entry).run();
              },
          .after = {"tensor_parallel", "autodiff"}};
}

}  // namespace trainer
