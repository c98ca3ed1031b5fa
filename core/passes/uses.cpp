// SPDX-License-Identifier: Apache-2.0
#include "core/passes/uses.h"

#include <algorithm>

#include "core/graph/ops/binary.h"

namespace trainer {

std::vector<int> count_uses(const Program& program, const Entry& entry) {
  std::vector<int> uses(program.tensors.size(), 0);
  for (const Node& node : entry.nodes) {
    for (TensorId id : node.inputs) {
      if (id != kNone) ++uses[static_cast<size_t>(id)];
    }
  }
  for (const NamedTensor& output : entry.outputs) ++uses[static_cast<size_t>(output.tensor)];
  return uses;
}

int only_reader(const Entry& entry, const std::vector<int>& uses, TensorId id) {
  if (uses[static_cast<size_t>(id)] != 1) return -1;
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    const std::vector<TensorId>& inputs = entry.nodes[n].inputs;
    if (std::find(inputs.begin(), inputs.end(), id) != inputs.end()) return static_cast<int>(n);
  }
  return -1;
}

bool exists_before(const Entry& entry, size_t n, TensorId id) {
  const int maker = maker_of(entry, id);
  return maker < 0 || static_cast<size_t>(maker) < n;
}

int maker_of(const Entry& entry, TensorId id) {
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    const std::vector<TensorId>& outputs = entry.nodes[n].outputs;
    if (std::find(outputs.begin(), outputs.end(), id) != outputs.end()) return static_cast<int>(n);
  }
  return -1;
}

std::vector<bool> are_read(const Program& program) {
  std::vector<bool> read(program.tensors.size(), false);
  for (const Entry& entry : program.entries) {
    const std::vector<int> uses = count_uses(program, entry);
    for (size_t id = 0; id < uses.size(); ++id) read[id] = read[id] || uses[id] > 0;
  }
  return read;
}

std::vector<int> makers_of(const Program& program, const Entry& entry) {
  std::vector<int> makers(program.tensors.size(), -1);
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    for (const TensorId id : entry.nodes[n].outputs)
      if (id != kNone) makers[static_cast<size_t>(id)] = static_cast<int>(n);
  }
  return makers;
}

std::vector<TensorId> with_input(std::vector<TensorId> inputs, size_t place, TensorId id) {
  inputs[place] = id;
  return inputs;
}

bool is_sum(const Node& node) {
  const auto* binary = dynamic_cast<const Binary*>(node.op.get());
  return binary != nullptr && binary->kind == Binary::Kind::add && !binary->relu;
}

}  // namespace trainer
