// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/conv2d.h"
#include "core/passes/dependence.h"
#include "core/passes/entry_editor.h"
#include "core/passes/table.h"

namespace trainer {
namespace {

/// Puts the node that changes the weights before the convolution, and passes its outputs to the convolution.
void fold(Program& program, EntryEditor& nodes, size_t conv, size_t norm) {
  const Node normalise = nodes.node(norm);
  std::vector<TensorId> read = nodes.node(conv).inputs;
  const std::vector<TensorId>& given = normalise.inputs;
  Node folding{
      .op = std::make_shared<FoldBatchNorm>(static_cast<const BatchNormInference&>(*normalise.op).eps),
      .inputs = {read[Conv2d::kWeight], read[Conv2d::kBias], given[BatchNormInference::kGamma],
                 given[BatchNormInference::kBeta], given[BatchNormInference::kMean],
                 given[BatchNormInference::kVariance]},
      .outputs = {},
      .origin = normalise.origin,
      .phase = normalise.phase};
  for (const TensorId like : {read[Conv2d::kWeight], given[BatchNormInference::kGamma]}) {
    folding.outputs.push_back(
        program.add({.name = "", .spec = program.spec(like), .role = Role::activation, .initial = {}}));
  }
  read[Conv2d::kWeight] = folding.outputs[FoldBatchNorm::kFoldedWeight];
  read[Conv2d::kBias] = folding.outputs[FoldBatchNorm::kFoldedBias];
  nodes.remove(norm);
  nodes.insert_before(conv, std::move(folding));
  nodes.set_inputs(conv, read);
  nodes.set_output(conv, Conv2d::kY, normalise.outputs[BatchNormInference::kY]);
}

/// To fold saves time only if no gradient passes: that of the folding costs more than that of a
/// normalisation.
void fold_all(Program& program, Entry& entry, Folding folding) {
  std::vector<bool> is_differentiated(program.tensors.size(), false);
  if (entry.name == entry_name::kTrainStep && folding == Folding::without_gradient)
    is_differentiated = depends_on_trained(program, entry);
  EntryEditor nodes(entry);
  const size_t count = nodes.size();
  for (size_t n = 0; n < count; ++n) {
    const auto* conv = dynamic_cast<const Conv2d*>(nodes.node(n).op.get());
    if (conv == nullptr || conv->relu) continue;
    const int reader = nodes.only_reader(nodes.node(n).outputs[Conv2d::kY]);
    if (reader == EntryEditor::kNobody) continue;
    const Node& next = nodes.node(reader);
    if (dynamic_cast<const BatchNormInference*>(next.op.get()) == nullptr) continue;
    if (is_differentiated[static_cast<size_t>(next.outputs[BatchNormInference::kY])]) continue;
    fold(program, nodes, n, static_cast<size_t>(reader));
  }
  nodes.finish();
}

}  // namespace

Pass fold_batch_norm(Folding folding) {
  auto run = [folding](Program& program) {
    for (Entry& entry : program.entries) fold_all(program, entry, folding);
  };
  return {
      .name = "fold_batch_norm",
      .help =
          "fold a batch normalisation with fixed statistics into the convolution before it, in evaluation "
          "and in frozen networks",
      .optional = true,
      .run = run};
}

std::optional<Pass> fold_batch_norm_pass(const PassSettings&) {
  return fold_batch_norm();
}

}  // namespace trainer
