// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/linear.h"
#include "core/graph/ops/reshape.h"
#include "core/passes/pass.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

bool feeds_only_linear(const Entry& entry, TensorId id) {
  for (const Node& node : entry.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == id && (i != 0 || dynamic_cast<const Linear*>(node.op.get()) == nullptr))
        return false;
    }
  }
  for (const NamedTensor& output : entry.outputs) {
    if (output.tensor == id) return false;
  }
  return true;
}

void fold(Program& program, Entry& entry) {
  for (size_t n = 0; n < entry.nodes.size();) {
    const Node& node = entry.nodes[n];
    const bool reshapes = dynamic_cast<const Reshape*>(node.op.get()) != nullptr;
    const auto keeps_samples = [&] {
      return program.spec(node.inputs[0]).shape[0] == program.spec(node.outputs[0]).shape[0];
    };
    if (!reshapes || !keeps_samples() || !feeds_only_linear(entry, node.outputs[0])) {
      ++n;
      continue;
    }
    replace_uses(entry, n + 1, node.outputs[0], node.inputs[0]);
    entry.nodes.erase(entry.nodes.begin() + static_cast<std::ptrdiff_t>(n));
  }
}

}  // namespace

Pass fold_flatten() {
  auto run = [](Program& program) {
    for (Entry& entry : program.entries) fold(program, entry);
  };
  return {.name = "fold_flatten",
          .help = "let linear layers take images as they lie, without a flattened copy",
          .optional = true,
          .run = run};
}

}  // namespace trainer
