// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <vector>

#include "core/engine/planner.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"
#include "core/passes/dependence.h"
#include "core/passes/entry_editor.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

/// The input that takes a product's addend, and the output that it is added to. Nothing for other operations,
/// and for products with a function of their result.
struct AddendPlace {
  size_t input, output;
};
std::optional<AddendPlace> addend_place(const Operation& op) {
  if (const auto* conv = dynamic_cast<const Conv2d*>(&op); conv != nullptr && !conv->relu && !conv->moments)
    return AddendPlace{Conv2d::kResidual, Conv2d::kY};
  if (const auto* linear = dynamic_cast<const Linear*>(&op);
      linear != nullptr && linear->function == LinearFunction::none)
    return AddendPlace{Linear::kAdded, Linear::kY};
  return std::nullopt;
}

void fuse_into_products(const Program& program, const Planner* planner, Entry& entry) {
  std::vector<bool> is_differentiated(program.tensors.size(), false);
  if (entry.name == entry_name::kTrainStep) is_differentiated = depends_on_trained(program, entry);
  EntryEditor nodes(entry);
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes.is_removed(n)) continue;
    const Node& product = nodes.node(n);
    const std::optional<AddendPlace> place = addend_place(*product.op);
    if (!place) continue;
    const TensorId y = product.outputs[place->output];
    const int reader = nodes.only_reader(y);
    if (reader == EntryEditor::kNobody || !is_sum(nodes.node(reader))) continue;
    const Node sum = nodes.node(reader);
    const TensorId addend = sum.inputs[sum.inputs[Binary::kA] == y ? Binary::kB : Binary::kA];
    // Of two products that are added, the later one takes the sum; so no node has to move.
    if (is_differentiated[static_cast<size_t>(sum.outputs[Binary::kY])] || !nodes.exists_before(n, addend))
      continue;
    const std::vector<TensorId> inputs = with_input(product.inputs, place->input, addend);
    if (planner != nullptr && planner->why_not({.op = *product.op,
                                                .inputs = specs_of(program.tensors, inputs),
                                                .outputs = specs_of(program.tensors, product.outputs)}))
      continue;
    nodes.remove(static_cast<size_t>(reader));
    nodes.set_inputs(n, inputs);
    nodes.set_output(n, place->output, sum.outputs[Binary::kY]);
  }
  nodes.finish();
}

}  // namespace

Pass fuse_addend(const Planner* planner) {
  auto run = [planner](Program& program) {
    for (Entry& entry : program.entries) fuse_into_products(program, planner, entry);
  };
  return {.name = "fuse_addend",
          .help =
              "add a residual within the convolution or linear layer before it, where nothing is "
              "differentiated",
          .optional = true,
          .run = run,
          .after = {"fold_batch_norm"}};
}

/// What it gains on a GPU has not been measured.
std::optional<Pass> fuse_addend_pass(const PassSettings& settings) {
  const bool gains = settings.planner != nullptr && !settings.planner->is_async();
  return gains ? std::optional(fuse_addend(settings.planner)) : std::nullopt;
}

}  // namespace trainer
