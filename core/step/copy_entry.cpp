// SPDX-License-Identifier: Apache-2.0
#include "core/step/copy_entry.h"

namespace trainer {

Entry copy_entry(Program& program, const Entry& entry, const std::string& name,
                 std::map<TensorId, TensorId> renamed) {
  Entry copy = entry;
  copy.name = name;
  auto rename = [&](TensorId& id) {
    if (const auto found = renamed.find(id); found != renamed.end()) id = found->second;
  };
  for (Node& node : copy.nodes) {
    for (TensorId& id : node.inputs) rename(id);
    for (TensorId& id : node.outputs) {
      if (id == kNone) continue;
      const TensorId fresh = program.add(Tensor(program.tensor(id)));
      renamed[id] = fresh;
      id = fresh;
    }
  }
  for (NamedTensor& output : copy.outputs) rename(output.tensor);
  for (ParameterGradient& pair : copy.gradients) rename(pair.gradient);
  return copy;
}

}  // namespace trainer
