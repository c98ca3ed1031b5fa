// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <vector>

#include "core/engine/planner.h"
#include "core/graph/ops/linear.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

constexpr size_t kSumInput = LinearBackwardWeights::kSumInput;

/// Finds the products that sums can join.
class Products {
 public:
  Products(const Program& program, const Entry& entry, const Planner& planner)
      : program_(program), entry_(entry), planner_(planner), uses_(count_uses(program, entry)) {
    for (const ParameterGradient& pair : entry.gradients) ++uses_[static_cast<size_t>(pair.gradient)];
  }

  /// Position of the product that `sum` can join in place of being added to `gradient`: that which makes the
  /// gradient, or makes what it is the sum of; nothing in between may be read by others. -1: there is none.
  int that_takes(TensorId sum, TensorId gradient) const {
    const int maker = uses_[static_cast<size_t>(gradient)] == 1 ? maker_of(entry_, gradient) : -1;
    if (maker < 0) return -1;
    const Node& node = entry_.nodes[static_cast<size_t>(maker)];
    if (is_sum(node)) return std::max(that_takes(sum, node.inputs[0]), that_takes(sum, node.inputs[1]));
    if (dynamic_cast<const LinearBackwardWeights*>(node.op.get()) == nullptr || node.outputs[0] != gradient)
      return -1;
    if (node.inputs.size() > kSumInput) return that_takes(sum, node.inputs[kSumInput]);
    return exists_before(entry_, static_cast<size_t>(maker), sum) && device_adds(node, sum) ? maker : -1;
  }

 private:
  bool device_adds(const Node& node, TensorId sum) const {
    const std::array inputs{node.inputs[0], node.inputs[1], sum};
    return !planner_.why_not({.op = *node.op,
                              .inputs = specs_of(program_.tensors, inputs),
                              .outputs = specs_of(program_.tensors, node.outputs)});
  }

  const Program& program_;
  const Entry& entry_;
  const Planner& planner_;
  std::vector<int> uses_;
};

void fuse_in(Program& program, Entry& entry, const Planner& planner) {
  const Products products(program, entry, planner);
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    if (!is_sum(entry.nodes[n])) continue;
    for (const size_t side : {size_t{1}, size_t{0}}) {
      const TensorId gradient = entry.nodes[n].inputs[side], sum = entry.nodes[n].inputs[1 - side];
      const int product = products.that_takes(sum, gradient);
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
