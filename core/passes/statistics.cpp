// SPDX-License-Identifier: Apache-2.0
#include "core/passes/statistics.h"

#include <algorithm>
#include <stdexcept>

#include "core/graph/ops/assign.h"
#include "core/graph/ops/blend.h"

namespace trainer {
namespace {

bool assigns(const Node& node) {
  return dynamic_cast<const Assign*>(node.op.get()) != nullptr && node.phase != Phase::update;
}

bool makes(const Node& node, TensorId id) {
  return !node.outputs.empty() && node.outputs[0] == id;
}

}  // namespace

std::vector<Statistic> statistics_of(const Program& program, const Entry& entry) {
  std::vector<Statistic> found;
  for (const Node& node : entry.nodes) {
    if (!assigns(node) || program.tensor(node.inputs[0]).role != Role::state) continue;
    const auto made = std::ranges::find_if(
        entry.nodes, [&](const Node& candidate) { return makes(candidate, node.inputs[1]); });
    if (made == entry.nodes.end() || dynamic_cast<const Blend*>(made->op.get()) == nullptr)
      throw std::logic_error("the forward part changes " + program.tensor(node.inputs[0]).name +
                             " in a way that cannot be put off");
    found.push_back({node.inputs[0], *made});
  }
  return found;
}

void remove_move(Entry& entry, const Statistic& statistic) {
  std::erase_if(entry.nodes, [&](const Node& node) {
    return makes(node, statistic.blend.outputs[0]) || (assigns(node) && node.inputs[0] == statistic.state);
  });
}

}  // namespace trainer
