// SPDX-License-Identifier: Apache-2.0
#include "core/passes/uses.h"

#include <algorithm>

namespace trainer {

std::vector<int> count_uses(const Program& program, const Entry& entry) {
  std::vector<int> uses(program.tensors.size(), 0);
  for (const Node& node : entry.nodes) {
    for (TensorId id : node.inputs) {
      if (id != kNone) ++uses[static_cast<size_t>(id)];
    }
  }
  for (const NamedTensor& output : entry.outputs) ++uses[static_cast<size_t>(output.tensor)];
  for (const ParameterGradient& pair : entry.gradients) ++uses[static_cast<size_t>(pair.gradient)];
  return uses;
}

void replace_uses(Entry& entry, size_t from, TensorId what, TensorId to) {
  for (size_t n = from; n < entry.nodes.size(); ++n) {
    std::replace(entry.nodes[n].inputs.begin(), entry.nodes[n].inputs.end(), what, to);
  }
  for (NamedTensor& output : entry.outputs) {
    if (output.tensor == what) output.tensor = to;
  }
}

}  // namespace trainer
