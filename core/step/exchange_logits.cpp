// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "core/graph/builder.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/logit_sums.h"
#include "core/graph/ops/own_part.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

class Exchange {
 public:
  Exchange(Program& program, Entry& entry) : program_(program), build_(program, entry) {}

  void run() {
    std::vector<Node> nodes;
    nodes.swap(build_.entry().nodes);
    for (Node& node : nodes) {
      for (TensorId& id : node.inputs) id = present(id);
      build_.set_origin(node.origin);
      build_.set_phase(node.phase);
      const auto* loss = dynamic_cast<const CrossEntropy*>(node.op.get());
      if (dynamic_cast<const SharedWork*>(node.op.get()) != nullptr) {
        same_[node.outputs[SharedWork::kY]] = node.inputs[SharedWork::kX];
      } else if (loss != nullptr && loss->cut) {
        add_up(*loss, node);
      } else {
        build_.entry().nodes.push_back(std::move(node));
      }
    }
    for (NamedTensor& output : build_.entry().outputs) output.tensor = present(output.tensor);
    for (ParameterGradient& pair : build_.entry().gradients) pair.gradient = present(pair.gradient);
  }

 private:
  TensorId present(TensorId id) const {
    const auto known = same_.find(id);
    return known == same_.end() ? id : known->second;
  }

  void add_up(const CrossEntropy& loss, const Node& node) {
    using From = CrossEntropy;
    const std::vector<TensorId>& in = node.inputs;
    const TensorId own =
        build_.emit<LogitSums>({in[From::kLogits], in[From::kLabels], in[From::kOtherLabels]}, *loss.cut);
    const Shape rows = build_.shape(own);
    const Along& along = loss.cut->along;
    const TensorId sums =
        build_.emit<AllGather>({own}, along, Shape{along.ranks, rows[0], rows[1]}, Work::repeated);
    Node total = node;
    total.op = std::make_shared<CrossEntropyOfSums>(loss.label_smoothing, *loss.cut);
    total.inputs = {sums, in[From::kLabels], in[From::kWeights], in[From::kOtherLabels],
                    in[From::kMixWeights]};
    build_.entry().nodes.push_back(std::move(total));
  }

  Program& program_;
  Builder build_;
  std::map<TensorId, TensorId> same_;
};

}  // namespace

Pass exchange_logits() {
  return {.name = "exchange_logits",
          .help = "compute the loss of logits that ranks share, of each rank's sums (parallelism.tensor)",
          .optional = false,
          .run =
              [](Program& program) {
                for (Entry& entry : program.entries) Exchange(program, entry).run();
              },
          .after = {"tensor_parallel", "autodiff"}};
}

}  // namespace trainer
