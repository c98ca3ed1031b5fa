// SPDX-License-Identifier: Apache-2.0
#include "core/passes/dependence.h"

#include <algorithm>

namespace trainer {

std::vector<bool> depends_on_trained(const Program& program, const Entry& entry) {
  std::vector<bool> dependent;
  for (const Tensor& tensor : program.tensors)
    dependent.push_back(tensor.role == Role::parameter && !tensor.frozen);
  for (const Node& node : entry.nodes) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [&](TensorId id) {
      return id != kNone && dependent[static_cast<size_t>(id)];
    });
    for (TensorId id : node.outputs) {
      if (any && id != kNone) dependent[static_cast<size_t>(id)] = true;
    }
  }
  return dependent;
}

}  // namespace trainer
