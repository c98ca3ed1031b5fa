// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/layer_norm.h"
#include "core/passes/entry_editor.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

/// Only inputs 0 and 6 of a batch normalisation's gradient may be sums.
bool takes_as_gradient(const Node& node, TensorId sum) {
  return dynamic_cast<const BatchNormBackward*>(node.op.get()) != nullptr && node.inputs[0] == sum &&
         node.inputs[6] == kNone;
}

void fuse_sums(EntryEditor& nodes) {
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes.is_removed(n) || !is_sum(nodes.node(n))) continue;
    const Node sum = nodes.node(n);
    const int reader = nodes.only_reader(sum.outputs[0]);
    if (reader == EntryEditor::kNobody || !takes_as_gradient(nodes.node(reader), sum.outputs[0])) continue;
    nodes.remove(n);
    std::vector<TensorId> inputs = nodes.node(reader).inputs;
    inputs[0] = sum.inputs[0];
    inputs[6] = sum.inputs[1];
    nodes.set_inputs(static_cast<size_t>(reader), inputs);
  }
}

/// Where a layer normalisation's gradient is but one of its input's, it takes in the others' sum.
void fuse_sums_behind_layer_norms(EntryEditor& nodes) {
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes.is_removed(n) || !is_sum(nodes.node(n))) continue;
    const Node sum = nodes.node(n);
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const TensorId dx = sum.inputs[side], other = sum.inputs[1 - side];
      const int maker = nodes.uses(dx) == 1 ? nodes.maker_of(dx) : EntryEditor::kNobody;
      if (maker == EntryEditor::kNobody) continue;
      const Node& norm = nodes.node(maker);
      if (dynamic_cast<const LayerNormBackward*>(norm.op.get()) == nullptr || norm.outputs[0] != dx ||
          norm.inputs[LayerNormBackward::kOtherInput] != kNone ||
          !nodes.exists_before(static_cast<size_t>(maker), other))
        continue;
      nodes.remove(n);
      nodes.set_input(static_cast<size_t>(maker), LayerNormBackward::kOtherInput, other);
      nodes.set_output(static_cast<size_t>(maker), 0, sum.outputs[0]);
      break;
    }
  }
}

}  // namespace

Pass fuse_gradient_sum() {
  auto run = [](Program& program) {
    for (Entry& entry : program.entries) {
      EntryEditor nodes(entry);
      fuse_sums(nodes);
      fuse_sums_behind_layer_norms(nodes);
      nodes.finish();
    }
  };
  return {.name = "fuse_gradient_sum",
          .help = "add gradients that meet at a normalisation in its own kernel",
          .optional = true,
          .run = run};
}

std::optional<Pass> fuse_gradient_sum_pass(const PassOptions& options) {
  return options.trains ? std::optional(fuse_gradient_sum()) : std::nullopt;
}

}  // namespace trainer
