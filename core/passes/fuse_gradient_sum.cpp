// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

bool is_sum(const Operation& op) {
  const auto* binary = dynamic_cast<const Binary*>(&op);
  return binary != nullptr && binary->kind == Binary::Kind::add;
}

/// Only inputs 0 and 6 of a batch normalisation's gradient may be sums.
bool takes_as_gradient(const Node& node, TensorId sum) {
  return dynamic_cast<const BatchNormBackward*>(node.op.get()) != nullptr && node.inputs[0] == sum &&
         node.inputs[6] == kNone;
}

void fuse_sums(Program& program, Entry& entry) {
  const std::vector<int> uses = count_uses(program, entry);
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    if (!is_sum(*entry.nodes[n].op)) continue;
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

}  // namespace

Pass fuse_gradient_sum() {
  auto run = [](Program& program) {
    for (Entry& entry : program.entries) fuse_sums(program, entry);
  };
  return {.name = "fuse_gradient_sum",
          .help = "add gradients that meet at a batch normalisation in its own walk",
          .optional = true,
          .run = run};
}

std::optional<Pass> fuse_gradient_sum_pass(const PassOptions& options) {
  return options.trains ? std::optional(fuse_gradient_sum()) : std::nullopt;
}

}  // namespace trainer
