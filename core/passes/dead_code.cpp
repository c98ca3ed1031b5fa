// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/graph/operation.h"
#include "core/graph/ops/assign.h"
#include "core/passes/table.h"

namespace trainer {
namespace {

/// One pass from the end: a node stays if it assigns, or if a remaining node or an output uses one of its
/// outputs.
void sweep(Program& program, Entry& entry) {
  std::vector<bool> needed(program.tensors.size(), false);
  for (const NamedTensor& output : entry.outputs) needed[static_cast<size_t>(output.tensor)] = true;
  std::vector<Node> kept;
  for (size_t n = entry.nodes.size(); n-- > 0;) {
    Node& node = entry.nodes[n];
    bool stays = dynamic_cast<const Assign*>(node.op.get()) != nullptr;
    for (TensorId& id : node.outputs) {
      const bool used = id != kNone && needed[static_cast<size_t>(id)];
      stays = stays || used;
    }
    if (!stays) continue;
    for (size_t i = 1; i < node.outputs.size(); ++i) {  // the first output is the operation's main result
      if (node.outputs[i] != kNone && !needed[static_cast<size_t>(node.outputs[i])]) node.outputs[i] = kNone;
    }
    for (TensorId id : node.inputs) {
      if (id != kNone) needed[static_cast<size_t>(id)] = true;
    }
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  entry.nodes = std::move(kept);
}

}  // namespace

Pass dead_code() {
  auto run = [](Program& program) {
    for (Entry& entry : program.entries) sweep(program, entry);
  };
  return {.name = "dead_code",
          .help = "remove nodes that are not needed",
          .optional = false,
          .run = run,
          .after = {"update", "average_weights", "given_averages"}};
}

std::optional<Pass> dead_code_pass(const PassSettings&) {
  return dead_code();
}

}  // namespace trainer
