// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/sync_batch_norm.h"

#include <map>
#include <stdexcept>
#include <utility>

#include "core/graph/builder.h"
#include "core/graph/ops/all_reduce.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/fake_quantize.h"
#include "core/graph/ops/lerp.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// Rewrites a step's nodes one by one.
class Synchronised {
 public:
  Synchronised(Program& program, int64_t ranks) : program_(program), ranks_(ranks) {}

  /// The node, after the nodes that collect its inputs from the other ranks.
  std::vector<Node> with_all_ranks(Node node) {
    Entry before("");
    Builder build(program_, before);
    build.set_phase(node.phase);
    build.set_origin(node.origin);
    if (dynamic_cast<const BatchNorm*>(node.op.get()) != nullptr) {
      share_moments(build, node);
    } else if (dynamic_cast<const FakeQuantize*>(node.op.get()) != nullptr) {
      // Each rank rounds by the range of its own samples; what all ranks keep is the mean.
    } else if (node.op->has_batch_statistics()) {
      throw std::logic_error(std::string(node.op->name()) + " cannot take its statistics over all ranks");
    }
    if (const auto* op = dynamic_cast<const BatchNormBackward*>(node.op.get())) share_sums(build, *op, node);
    if (const auto* op = dynamic_cast<const Lerp*>(node.op.get())) make_unbiased(*op, node);
    before.nodes.push_back(std::move(node));
    return std::move(before.nodes);
  }

 private:
  void share_moments(Builder& build, Node& norm) {
    const Shape x = build.shape(norm.inputs[BatchNorm::kX]);
    const int64_t values = ranks_ * numel(x) / x[1];  // of a channel
    values_[norm.outputs[BatchNorm::kVariance]] = static_cast<double>(values);
    norm.inputs[BatchNorm::kTable] =
        summed(build, build.emit<BatchNormMoments>({norm.inputs[BatchNorm::kX]}, ranks_));
  }

  /// dgamma and dbeta stay this rank's own. The residual's gradient is made before the sums are complete, and
  /// is read in place of its own inputs.
  void share_sums(Builder& build, const BatchNormBackward& op, Node& norm) {
    std::vector<TensorId>& in = norm.inputs;
    build.set_role(Role::gradient);
    using Of = BatchNormBackward;
    const TensorId table = build.emit<BatchNormSums>(
        {in[Of::kDy], in[Of::kX], in[Of::kMean], in[Of::kVariance], in[Of::kMask], in[Of::kOtherDy]}, op.eps,
        ranks_, op.residual);
    std::vector<TensorId>& made = build.entry().nodes.back().outputs;
    made[BatchNormSums::kDgamma] = std::exchange(norm.outputs[Of::kDgamma], kNone);
    made[BatchNormSums::kDbeta] = std::exchange(norm.outputs[Of::kDbeta], kNone);
    if (op.residual) {
      in[Of::kDy] = made[BatchNormSums::kDresidual] = norm.outputs[Of::kDresidual];
      in[Of::kMask] = in[Of::kOtherDy] = kNone;
      norm.outputs.pop_back();
      norm.op = std::make_shared<BatchNormBackward>(op.eps, false, false);
    }
    in[Of::kTable] = summed(build, table);
  }

  /// The running variance is the unbiased one of the values of all ranks.
  void make_unbiased(const Lerp& op, Node& lerp) const {
    const auto values = values_.find(lerp.inputs[Lerp::kFresh]);
    if (values != values_.end())
      lerp.op = std::make_shared<Lerp>(op.share, values->second / (values->second - 1));
  }

  TensorId summed(Builder& build, TensorId table) {
    const TensorId started = build.emit<AllReduceStart>({table}, next_);
    return build.emit<CollectiveDone>({started}, next_++, size_t{1});
  }

  Program& program_;
  int64_t ranks_, next_ = 0;
  std::map<TensorId, double> values_;  ///< that a variance is of, over all ranks
};

void synchronise(Program& program, Entry& entry, int64_t ranks) {
  Synchronised step(program, ranks);
  std::vector<Node> nodes;
  for (Node& node : entry.nodes) {
    for (Node& each : step.with_all_ranks(std::move(node))) nodes.push_back(std::move(each));
  }
  entry.nodes = std::move(nodes);
}

}  // namespace

Pass sync_batch_norm(int64_t ranks) {
  return {
      .name = "sync_batch_norm",
      .help = "take batch normalisation's statistics over all ranks (parallelism.sync_batch_norm)",
      .optional = false,
      .run =
          [ranks](Program& program) { synchronise(program, program.entry(entry_name::kTrainStep), ranks); },
      .after = {"autodiff", "fuse_residual", "fuse_relu", "fuse_gradient_sum"}};
}

}  // namespace trainer
