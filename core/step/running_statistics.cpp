// SPDX-License-Identifier: Apache-2.0
#include "core/step/running_statistics.h"

#include <set>
#include <stdexcept>

#include "core/graph/ops/assign.h"
#include "core/graph/ops/lerp.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

bool assigns(const Node& node) {
  return dynamic_cast<const Assign*>(node.op.get()) != nullptr && node.phase != Phase::update;
}

}  // namespace

std::vector<Statistic> statistics_of(const Program& program, const Entry& entry) {
  const std::vector<int> makers = makers_of(program, entry);
  std::vector<Statistic> found;
  for (const Node& node : entry.nodes) {
    if (!assigns(node) || program.tensor(node.inputs[Assign::kState]).role != Role::state) continue;
    const int maker = makers[static_cast<size_t>(node.inputs[Assign::kValue])];
    const Node* made = maker < 0 ? nullptr : &entry.nodes[static_cast<size_t>(maker)];
    if (made == nullptr || dynamic_cast<const Lerp*>(made->op.get()) == nullptr)
      throw std::logic_error("the forward part changes " + program.tensor(node.inputs[Assign::kState]).name +
                             " in a way that cannot be put off");
    found.push_back({node.inputs[Assign::kState], *made});
  }
  return found;
}

void remove_moves(Entry& entry, const std::vector<Statistic>& statistics) {
  std::set<TensorId> states, values;
  for (const Statistic& each : statistics) {
    states.insert(each.state);
    values.insert(each.lerp.outputs[Lerp::kY]);
  }
  std::erase_if(entry.nodes, [&](const Node& node) {
    const bool makes_value = !node.outputs.empty() && values.contains(node.outputs[0]);
    return makes_value || (assigns(node) && states.contains(node.inputs[Assign::kState]));
  });
}

}  // namespace trainer
