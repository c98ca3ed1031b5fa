// SPDX-License-Identifier: Apache-2.0
#include "core/step/share_persistent.h"

#include <map>
#include <string>

namespace trainer {

void share_persistent(Program& own, const std::vector<Program>& stages) {
  struct Found {
    const Tensor* tensor;
    std::vector<int64_t> holders;
  };
  std::map<std::string, Found> by_name;
  for (const Program& program : stages) {
    for (const Tensor& tensor : program.tensors) {
      if (tensor.name.empty() || !outlives_step(tensor.role)) continue;
      by_name.try_emplace(tensor.name, Found{&tensor, {}}).first->second.holders.push_back(program.stage);
    }
  }
  for (const auto& [name, found] : by_name) {
    const bool is_everywhere = found.holders.size() == stages.size() && found.tensor->stages.empty();
    if (is_everywhere) continue;
    TensorId id = own.find(name);
    if (id == kNone) id = own.add(Tensor(*found.tensor));
    Tensor& tensor = own.tensors[static_cast<size_t>(id)];
    tensor.stages = found.holders;
    if (!tensor.part) tensor.part = Part{.whole = tensor.spec.shape, .mesh = own.mesh};
  }
  for (Tensor& tensor : own.tensors) {
    if (is_persistent(tensor.role) && !outlives_step(tensor.role)) tensor.stages = {own.stage};
  }
}

}  // namespace trainer
