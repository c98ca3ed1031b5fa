// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/layer_norm.h"
#include "core/passes/entry_editor.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

/// Of a batch normalisation's gradient only the two dy may be sums.
bool takes_as_gradient(const Node& node, TensorId sum) {
  return dynamic_cast<const BatchNormBackward*>(node.op.get()) != nullptr &&
         node.inputs[BatchNormBackward::kDy] == sum && node.inputs[BatchNormBackward::kOtherDy] == kNone;
}

void fuse_sums(EntryEditor& nodes) {
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes.is_removed(n) || !is_sum(nodes.node(n))) continue;
    const Node sum = nodes.node(n);
    const int reader = nodes.only_reader(sum.outputs[Binary::kY]);
    if (reader == EntryEditor::kNobody || !takes_as_gradient(nodes.node(reader), sum.outputs[Binary::kY]))
      continue;
    nodes.remove(n);
    std::vector<TensorId> inputs = nodes.node(reader).inputs;
    inputs[BatchNormBackward::kDy] = sum.inputs[Binary::kA];
    inputs[BatchNormBackward::kOtherDy] = sum.inputs[Binary::kB];
    nodes.set_inputs(static_cast<size_t>(reader), inputs);
  }
}

/// If a layer normalisation's gradient is only one of its input's, it adds the sum of the others.
void fuse_sums_behind_layer_norms(EntryEditor& nodes) {
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes.is_removed(n) || !is_sum(nodes.node(n))) continue;
    const Node sum = nodes.node(n);
    for (const auto& [side, rest] : {std::pair{Binary::kA, Binary::kB}, std::pair{Binary::kB, Binary::kA}}) {
      const TensorId dx = sum.inputs[side], other = sum.inputs[rest];
      const int maker = nodes.uses(dx) == 1 ? nodes.maker_of(dx) : EntryEditor::kNobody;
      if (maker == EntryEditor::kNobody) continue;
      const Node& norm = nodes.node(maker);
      if (dynamic_cast<const LayerNormBackward*>(norm.op.get()) == nullptr ||
          norm.outputs[LayerNormBackward::kDx] != dx || norm.inputs[LayerNormBackward::kOtherDy] != kNone ||
          !nodes.exists_before(static_cast<size_t>(maker), other))
        continue;
      nodes.remove(n);
      nodes.set_input(static_cast<size_t>(maker), LayerNormBackward::kOtherDy, other);
      nodes.set_output(static_cast<size_t>(maker), LayerNormBackward::kDx, sum.outputs[Binary::kY]);
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
          .help = "add the gradients that meet at a normalisation within its own kernel",
          .optional = true,
          .run = run,
          .after = {"autodiff"}};
}

std::optional<Pass> fuse_gradient_sum_pass(const PassSettings& settings) {
  return settings.trains ? std::optional(fuse_gradient_sum()) : std::nullopt;
}

}  // namespace trainer
