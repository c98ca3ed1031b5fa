// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/layer_norm.h"
#include "core/passes/entry_editor.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

void fuse_sums_into_norms(EntryEditor& nodes) {
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Node& norm = nodes.node(n);
    const auto* op = dynamic_cast<const BatchNorm*>(norm.op.get());
    if (nodes.is_removed(n) || op == nullptr || op->relu || norm.inputs[BatchNorm::kResidual] != kNone)
      continue;
    const int reader = nodes.only_reader(norm.outputs[BatchNorm::kY]);
    if (reader == EntryEditor::kNobody || !is_sum(nodes.node(reader))) continue;
    const Node sum = nodes.node(reader);
    const TensorId other =
        sum.inputs[sum.inputs[Binary::kA] == norm.outputs[BatchNorm::kY] ? Binary::kB : Binary::kA];
    // Of two normalisations that are added, the later one takes the sum; so no node has to move.
    if (!nodes.exists_before(n, other)) continue;
    nodes.remove(static_cast<size_t>(reader));
    nodes.set_input(n, BatchNorm::kResidual, other);
    nodes.set_output(n, BatchNorm::kY, sum.outputs[Binary::kY]);
  }
}

/// y = layer_norm(a + b): the normalisation adds, and also outputs the sum, which a residual stream reads
/// again later.
void fuse_sums_before_layer_norms(EntryEditor& nodes) {
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Node& norm = nodes.node(n);
    const auto* op = dynamic_cast<const LayerNorm*>(norm.op.get());
    if (nodes.is_removed(n) || op == nullptr || norm.inputs[LayerNorm::kResidual] != kNone) continue;
    const TensorId s = norm.inputs[LayerNorm::kX];
    const int maker = nodes.maker_of(s);
    if (maker == EntryEditor::kNobody || !is_sum(nodes.node(maker))) continue;
    // The sum is made later then, so nothing may read it before.
    if (nodes.readers(s)[0] != n) continue;
    const Node sum = nodes.node(maker);
    nodes.remove(static_cast<size_t>(maker));
    std::vector<TensorId> inputs = norm.inputs, outputs = norm.outputs;
    inputs[LayerNorm::kX] = sum.inputs[Binary::kA];
    inputs[LayerNorm::kResidual] = sum.inputs[Binary::kB];
    outputs.push_back(s);
    nodes.set_inputs(n, inputs);
    nodes.set_outputs(n, outputs);
  }
}

}  // namespace

Pass fuse_residual() {
  auto run = [](Program& program) {
    for (Entry& entry : program.entries) {
      EntryEditor nodes(entry);
      fuse_sums_into_norms(nodes);
      fuse_sums_before_layer_norms(nodes);
      nodes.finish();
    }
  };
  return {.name = "fuse_residual",
          .help = "add a residual within the kernel of the normalisation next to it",
          .optional = true,
          .run = run};
}

std::optional<Pass> fuse_residual_pass(const PassSettings&) {
  return fuse_residual();
}

}  // namespace trainer
