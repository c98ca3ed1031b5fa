// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

/// Whether a node before position n, or nothing in the entry, makes the tensor.
bool exists_before(const Entry& entry, size_t n, TensorId id) {
  return std::none_of(entry.nodes.begin() + static_cast<std::ptrdiff_t>(n), entry.nodes.end(),
                      [&](const Node& node) {
                        return std::find(node.outputs.begin(), node.outputs.end(), id) != node.outputs.end();
                      });
}

void fuse_sums_into_norms(Program& program, Entry& entry) {
  const std::vector<int> uses = count_uses(program, entry);
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    Node& norm = entry.nodes[n];
    const auto* op = dynamic_cast<const BatchNorm*>(norm.op.get());
    if (op == nullptr || op->relu || norm.inputs[3] != kNone) continue;
    const int reader = only_reader(entry, uses, norm.outputs[0]);
    if (reader < 0) continue;
    const Node& sum = entry.nodes[static_cast<size_t>(reader)];
    const auto* binary = dynamic_cast<const Binary*>(sum.op.get());
    if (binary == nullptr || binary->kind != Binary::Kind::add) continue;
    const TensorId other = sum.inputs[sum.inputs[0] == norm.outputs[0] ? 1 : 0];
    // Of two normalisations that are added, the later one takes the sum; so no node has to move.
    if (!exists_before(entry, n, other)) continue;
    norm.inputs[3] = other;
    norm.outputs[0] = sum.outputs[0];
    entry.nodes.erase(entry.nodes.begin() + reader);
  }
}

}  // namespace

Pass fuse_residual() {
  auto run = [](Program& program) {
    for (Entry& entry : program.entries) fuse_sums_into_norms(program, entry);
  };
  return {.name = "fuse_residual",
          .help = "add a residual in the walk of the batch normalisation before it",
          .optional = true,
          .run = run};
}

std::optional<Pass> fuse_residual_pass(const PassOptions&) {
  return fuse_residual();
}

}  // namespace trainer
