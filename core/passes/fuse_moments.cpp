// SPDX-License-Identifier: Apache-2.0
#include "core/engine/planner.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/conv2d.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

/// The tensors in which a convolution puts the sums of its output and of the squares; none where the node is
/// no convolution, or one whose sums the device does not give.
std::vector<TensorId> sums_of(Program& program, Node& node, const Planner& planner) {
  const auto* conv = dynamic_cast<const Conv2d*>(node.op.get());
  if (conv == nullptr) return {};
  if (conv->moments) return {node.outputs[1], node.outputs[2]};
  const auto measuring = std::make_shared<Conv2d>(conv->geometry, conv->relu, true);
  OpContext context{.op = *measuring, .inputs = specs_of(program.tensors, node.inputs), .outputs = {}};
  context.outputs = measuring->infer(context.inputs);
  if (planner.why_not(context)) return {};
  node.op = measuring;
  for (const size_t o : {1, 2}) {
    node.outputs.push_back(
        program.add({.name = "", .spec = context.outputs[o], .role = Role::activation, .initial = {}}));
  }
  return {node.outputs[1], node.outputs[2]};
}

/// A normalisation over several ranks has a table already.
void fuse_moments_in(Program& program, Entry& entry, const Planner& planner) {
  constexpr size_t kInputsWithoutTable = 4;
  const std::vector<int> makers = makers_of(program, entry);
  for (Node& norm : entry.nodes) {
    if (dynamic_cast<const BatchNorm*>(norm.op.get()) == nullptr || norm.inputs.size() > kInputsWithoutTable)
      continue;
    const int maker = makers[static_cast<size_t>(norm.inputs[0])];
    if (maker < 0) continue;
    for (const TensorId sums : sums_of(program, entry.nodes[static_cast<size_t>(maker)], planner))
      norm.inputs.push_back(sums);
  }
}

}  // namespace

Pass fuse_moments(const Planner& planner) {
  auto run = [&planner](Program& program) {
    for (Entry& entry : program.entries) fuse_moments_in(program, entry, planner);
  };
  return {
      .name = "fuse_moments",
      .help = "let a convolution compute the moments for the batch normalisation after it, if the device can",
      .optional = true,
      .run = run};
}

std::optional<Pass> fuse_moments_pass(const PassOptions& options) {
  if (!options.trains || options.planner == nullptr) return std::nullopt;
  return fuse_moments(*options.planner);
}

}  // namespace trainer
