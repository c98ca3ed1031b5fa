// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/conv2d.h"
#include "core/passes/dependence.h"
#include "core/passes/entry_editor.h"
#include "core/passes/table.h"

namespace trainer {
namespace {

/// Puts the node that changes the weights before the convolution, and gives the convolution what it makes.
void fold(Program& program, EntryEditor& nodes, size_t conv, size_t norm) {
  const Node normalise = nodes.node(norm);
  std::vector<TensorId> read = nodes.node(conv).inputs;
  const std::vector<TensorId>& given = normalise.inputs;  // x, gamma, beta, mean, variance
  Node folding{
      .op = std::make_shared<FoldBatchNorm>(static_cast<const BatchNormInference&>(*normalise.op).eps),
      .inputs = {read[1], read[2], given[1], given[2], given[3], given[4]},
      .outputs = {},
      .origin = normalise.origin,
      .phase = normalise.phase};
  for (const TensorId like : {read[1], given[1]}) {
    folding.outputs.push_back(
        program.add({.name = "", .spec = program.spec(like), .role = Role::activation, .initial = {}}));
  }
  read[1] = folding.outputs[0];
  read[2] = folding.outputs[1];
  nodes.remove(norm);
  nodes.insert_before(conv, std::move(folding));
  nodes.set_inputs(conv, read);
  nodes.set_output(conv, 0, normalise.outputs[0]);
}

/// In training a normalisation is folded only where no gradient passes: the folding has none.
void fold_all(Program& program, Entry& entry) {
  std::vector<bool> is_differentiated(program.tensors.size(), false);
  if (entry.name == entry_name::kTrainStep) is_differentiated = depends_on_trained(program, entry);
  EntryEditor nodes(entry);
  const size_t count = nodes.size();
  for (size_t n = 0; n < count; ++n) {
    const auto* conv = dynamic_cast<const Conv2d*>(nodes.node(n).op.get());
    if (conv == nullptr || conv->relu) continue;
    const int reader = nodes.only_reader(nodes.node(n).outputs[0]);
    if (reader == EntryEditor::kNobody) continue;
    const Node& next = nodes.node(reader);
    if (dynamic_cast<const BatchNormInference*>(next.op.get()) == nullptr) continue;
    if (is_differentiated[static_cast<size_t>(next.outputs[0])]) continue;
    fold(program, nodes, n, static_cast<size_t>(reader));
  }
  nodes.finish();
}

}  // namespace

Pass fold_batch_norm() {
  auto run = [](Program& program) {
    for (Entry& entry : program.entries) fold_all(program, entry);
  };
  return {.name = "fold_batch_norm",
          .help =
              "in evaluation and where nothing is trained, let the convolution's weights do the batch "
              "normalisation after it",
          .optional = true,
          .run = run};
}

std::optional<Pass> fold_batch_norm_pass(const PassOptions&) {
  return fold_batch_norm();
}

}  // namespace trainer
