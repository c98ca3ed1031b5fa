// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/unary.h"
#include "core/passes/pass.h"

namespace trainer {
namespace {

/// How often each tensor is read within an entry, outputs counting as reads.
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

/// The same operation with the relu in it, or nullptr where it cannot take one.
std::shared_ptr<const Operation> with_relu(const Operation& op) {
  if (const auto* conv = dynamic_cast<const Conv2d*>(&op); conv != nullptr && !conv->relu) {
    return std::make_shared<Conv2d>(conv->geometry, true);
  }
  if (const auto* linear = dynamic_cast<const Linear*>(&op); linear != nullptr && !linear->relu) {
    return std::make_shared<Linear>(true);
  }
  return nullptr;
}

bool is_relu(const Operation& op) {
  const auto* unary = dynamic_cast<const Unary*>(&op);
  return unary != nullptr && std::holds_alternative<elementwise::Relu>(unary->function);
}

void fuse(Program& program, Entry& entry) {
  const std::vector<int> uses = count_uses(program, entry);
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    const auto fused = with_relu(*entry.nodes[n].op);
    if (fused == nullptr || uses[static_cast<size_t>(entry.nodes[n].outputs[0])] != 1) continue;
    for (size_t r = n + 1; r < entry.nodes.size(); ++r) {
      if (!is_relu(*entry.nodes[r].op) || entry.nodes[r].inputs[0] != entry.nodes[n].outputs[0]) continue;
      entry.nodes[n].op = fused;
      entry.nodes[n].outputs[0] = entry.nodes[r].outputs[0];
      entry.nodes.erase(entry.nodes.begin() + static_cast<std::ptrdiff_t>(r));
      break;
    }
  }
}

}  // namespace

Pass fuse_relu() {
  auto run = [](Program& program) {
    for (Entry& entry : program.entries) fuse(program, entry);
  };
  return {.name = "fuse_relu",
          .help = "compute a relu together with the convolution or linear layer before it",
          .optional = true,
          .run = run};
}

}  // namespace trainer
