// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <vector>

#include "core/engine/planner.h"
#include "core/graph/ops/linear.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

/// The input that a product of a gradient adds, where it has room for one: behind a function that follows
/// the product it has none.
std::optional<size_t> place_of_sum(const Node& product) {
  if (dynamic_cast<const LinearBackwardWeights*>(product.op.get()) != nullptr)
    return LinearBackwardWeights::kAdded;
  constexpr size_t kKept = LinearBackwardData::kKept;
  const bool has_function = product.inputs.size() > kKept && product.inputs[kKept] != kNone;
  const auto* data = dynamic_cast<const LinearBackwardData*>(product.op.get());
  if (data == nullptr || has_function || data->factor != 1) return {};
  return LinearBackwardData::kAdded;
}

std::vector<TensorId> with_sum(std::vector<TensorId> inputs, size_t place, TensorId sum) {
  inputs.resize(place + 1, kNone);
  inputs[place] = sum;
  return inputs;
}

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
    const std::optional<size_t> place = place_of_sum(node);
    if (!place || node.outputs[0] != gradient) return -1;
    if (node.inputs.size() > *place && node.inputs[*place] != kNone)
      return that_takes(sum, node.inputs[*place]);
    return exists_before(entry_, static_cast<size_t>(maker), sum) && device_adds(node, *place, sum) ? maker
                                                                                                    : -1;
  }

 private:
  bool device_adds(const Node& node, size_t place, TensorId sum) const {
    return !planner_.why_not({.op = *node.op,
                              .inputs = specs_of(program_.tensors, with_sum(node.inputs, place, sum)),
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
      Node& node = entry.nodes[static_cast<size_t>(product)];
      node.inputs = with_sum(node.inputs, *place_of_sum(node), sum);
      entry.nodes[static_cast<size_t>(maker_of(entry, gradient))].outputs[0] = entry.nodes[n].outputs[0];
      entry.nodes.erase(entry.nodes.begin() + static_cast<std::ptrdiff_t>(n));
      --n;
      break;
    }
  }
}

}  // namespace

Pass fuse_product_sum(const Planner& planner) {
  auto run = [&planner](Program& program) {
    for (Entry& entry : program.entries) fuse_in(program, entry, planner);
  };
  return {
      .name = "fuse_product_sum",
      .help = "add a gradient to what it is summed with in the product that makes it, where the device can",
      .optional = true,
      .run = run};
}

std::optional<Pass> fuse_product_sum_pass(const PassOptions& options) {
  if (!options.trains || options.planner == nullptr) return std::nullopt;
  return fuse_product_sum(*options.planner);
}

}  // namespace trainer
