// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/layer_norm.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

void fuse_sums_into_norms(Program& program, Entry& entry) {
  const std::vector<int> uses = count_uses(program, entry);
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    Node& norm = entry.nodes[n];
    const auto* op = dynamic_cast<const BatchNorm*>(norm.op.get());
    if (op == nullptr || op->relu || norm.inputs[3] != kNone) continue;
    const int reader = only_reader(entry, uses, norm.outputs[0]);
    if (reader < 0) continue;
    const Node& sum = entry.nodes[static_cast<size_t>(reader)];
    if (!is_sum(sum)) continue;
    const TensorId other = sum.inputs[sum.inputs[0] == norm.outputs[0] ? 1 : 0];
    // Of two normalisations that are added, the later one takes the sum; so no node has to move.
    if (!exists_before(entry, n, other)) continue;
    norm.inputs[3] = other;
    norm.outputs[0] = sum.outputs[0];
    entry.nodes.erase(entry.nodes.begin() + reader);
  }
}

bool is_read_between(const Entry& entry, size_t begin, size_t end, TensorId id) {
  return std::any_of(entry.nodes.begin() + static_cast<std::ptrdiff_t>(begin),
                     entry.nodes.begin() + static_cast<std::ptrdiff_t>(end), [&](const Node& node) {
                       return std::find(node.inputs.begin(), node.inputs.end(), id) != node.inputs.end();
                     });
}

/// y = layer_norm(a + b): the normalisation adds, and gives the sum too, which a residual stream reads again
/// later.
void fuse_sums_before_layer_norms(Entry& entry) {
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    const auto* op = dynamic_cast<const LayerNorm*>(entry.nodes[n].op.get());
    if (op == nullptr || entry.nodes[n].inputs[3] != kNone) continue;
    const TensorId s = entry.nodes[n].inputs[0];
    const int maker = maker_of(entry, s);
    if (maker < 0 || !is_sum(entry.nodes[static_cast<size_t>(maker)])) continue;
    const auto sum = static_cast<size_t>(maker);
    // The sum is made later then, so nothing may read it before.
    if (sum > n || is_read_between(entry, sum, n, s)) continue;
    Node& norm = entry.nodes[n];
    norm.inputs[0] = entry.nodes[sum].inputs[0];
    norm.inputs[3] = entry.nodes[sum].inputs[1];
    norm.outputs.push_back(s);
    entry.nodes.erase(entry.nodes.begin() + maker);
    --n;
  }
}

}  // namespace

Pass fuse_residual() {
  auto run = [](Program& program) {
    for (Entry& entry : program.entries) {
      fuse_sums_into_norms(program, entry);
      fuse_sums_before_layer_norms(entry);
    }
  };
  return {.name = "fuse_residual",
          .help = "add a residual in the walk of the normalisation beside it",
          .optional = true,
          .run = run};
}

std::optional<Pass> fuse_residual_pass(const PassOptions&) {
  return fuse_residual();
}

}  // namespace trainer
