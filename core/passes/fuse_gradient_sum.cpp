// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/layer_norm.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

/// Only inputs 0 and 6 of a batch normalisation's gradient may be sums.
bool takes_as_gradient(const Node& node, TensorId sum) {
  return dynamic_cast<const BatchNormBackward*>(node.op.get()) != nullptr && node.inputs[0] == sum &&
         node.inputs[6] == kNone;
}

void fuse_sums(Program& program, Entry& entry) {
  const std::vector<int> uses = count_uses(program, entry);
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    if (!is_sum(entry.nodes[n])) continue;
    const int reader = only_reader(entry, uses, entry.nodes[n].outputs[0]);
    if (reader < 0 || !takes_as_gradient(entry.nodes[static_cast<size_t>(reader)], entry.nodes[n].outputs[0]))
      continue;
    Node& norm = entry.nodes[static_cast<size_t>(reader)];
    norm.inputs[6] = entry.nodes[n].inputs[1];
    norm.inputs[0] = entry.nodes[n].inputs[0];
    entry.nodes.erase(entry.nodes.begin() + static_cast<std::ptrdiff_t>(n));
    --n;
  }
}

/// Where a layer normalisation's gradient is but one of its input's, it takes in the others' sum.
void fuse_sums_behind_layer_norms(Program& program, Entry& entry) {
  const std::vector<int> uses = count_uses(program, entry);
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    if (!is_sum(entry.nodes[n])) continue;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const TensorId dx = entry.nodes[n].inputs[side], other = entry.nodes[n].inputs[1 - side];
      const int maker = uses[static_cast<size_t>(dx)] == 1 ? maker_of(entry, dx) : -1;
      if (maker < 0) continue;
      Node& norm = entry.nodes[static_cast<size_t>(maker)];
      if (dynamic_cast<const LayerNormBackward*>(norm.op.get()) == nullptr || norm.outputs[0] != dx ||
          norm.inputs[LayerNormBackward::kOtherInput] != kNone ||
          !exists_before(entry, static_cast<size_t>(maker), other))
        continue;
      norm.inputs[LayerNormBackward::kOtherInput] = other;
      norm.outputs[0] = entry.nodes[n].outputs[0];
      entry.nodes.erase(entry.nodes.begin() + static_cast<std::ptrdiff_t>(n));
      --n;
      break;
    }
  }
}

}  // namespace

Pass fuse_gradient_sum() {
  auto run = [](Program& program) {
    for (Entry& entry : program.entries) {
      fuse_sums(program, entry);
      fuse_sums_behind_layer_norms(program, entry);
    }
  };
  return {.name = "fuse_gradient_sum",
          .help = "add gradients that meet at a normalisation in its own walk",
          .optional = true,
          .run = run};
}

std::optional<Pass> fuse_gradient_sum_pass(const PassOptions& options) {
  return options.trains ? std::optional(fuse_gradient_sum()) : std::nullopt;
}

}  // namespace trainer
