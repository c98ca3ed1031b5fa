// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/engine/planner.h"
#include "core/graph/ops/linear.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

constexpr size_t kSumInput = LinearBackwardWeights::kSumInput;

/// Position of the product that `sum` can join, where `gradient`, which is read once, comes of one: its own
/// product or, where that has joined a sum already, the first of those that made that sum. -1: there is none.
int product_for(const Program& program, const Entry& entry, const std::vector<int>& uses, TensorId gradient,
                TensorId sum, const Planner& planner) {
  const int maker = uses[static_cast<size_t>(gradient)] == 1 ? maker_of(entry, gradient) : -1;
  if (maker < 0) return -1;
  const Node& node = entry.nodes[static_cast<size_t>(maker)];
  if (dynamic_cast<const LinearBackwardWeights*>(node.op.get()) == nullptr || node.outputs[0] != gradient)
    return -1;
  if (node.inputs.size() > kSumInput)
    return product_for(program, entry, uses, node.inputs[kSumInput], sum, planner);
  if (!exists_before(entry, static_cast<size_t>(maker), sum)) return -1;
  OpContext context{.op = *node.op,
                    .inputs = specs_of(program.tensors, std::array{node.inputs[0], node.inputs[1], sum}),
                    .outputs = specs_of(program.tensors, node.outputs)};
  return planner.why_not(context) ? -1 : maker;
}

void fuse_in(Program& program, Entry& entry, const Planner& planner) {
  const std::vector<int> uses = count_uses(program, entry);
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    if (!is_sum(entry.nodes[n])) continue;
    for (const size_t side : {size_t{1}, size_t{0}}) {
      const TensorId gradient = entry.nodes[n].inputs[side], sum = entry.nodes[n].inputs[1 - side];
      const int product = product_for(program, entry, uses, gradient, sum, planner);
      if (product < 0) continue;
      entry.nodes[static_cast<size_t>(product)].inputs.push_back(sum);
      entry.nodes[static_cast<size_t>(maker_of(entry, gradient))].outputs[0] = entry.nodes[n].outputs[0];
      entry.nodes.erase(entry.nodes.begin() + static_cast<std::ptrdiff_t>(n));
      --n;
      break;
    }
  }
}

}  // namespace

Pass fuse_weight_sum(const Planner& planner) {
  auto run = [&planner](Program& program) {
    for (Entry& entry : program.entries) fuse_in(program, entry, planner);
  };
  return {.name = "fuse_weight_sum",
          .help =
              "add the gradient of weights to what it is summed with in the product that makes it, where "
              "the device can",
          .optional = true,
          .run = run};
}

std::optional<Pass> fuse_weight_sum_pass(const PassOptions& options) {
  if (!options.trains || options.planner == nullptr) return std::nullopt;
  return fuse_weight_sum(*options.planner);
}

}  // namespace trainer
