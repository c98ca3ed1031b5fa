// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/conv2d.h"
#include "core/passes/dependence.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

/// Puts the node that changes the weights before the convolution, and gives the convolution what it makes.
void fold(Program& program, Entry& entry, size_t conv, size_t norm) {
  Node& normalise = entry.nodes[norm];
  Node& convolve = entry.nodes[conv];
  const std::vector<TensorId>& given = normalise.inputs;  // x, gamma, beta, mean, variance
  Node folding{
      .op = std::make_shared<FoldBatchNorm>(static_cast<const BatchNormInference&>(*normalise.op).eps),
      .inputs = {convolve.inputs[1], convolve.inputs[2], given[1], given[2], given[3], given[4]},
      .outputs = {},
      .origin = normalise.origin,
      .phase = normalise.phase};
  for (const TensorId like : {convolve.inputs[1], given[1]}) {
    folding.outputs.push_back(
        program.add({.name = "", .spec = program.spec(like), .role = Role::activation, .initial = {}}));
  }
  convolve.inputs[1] = folding.outputs[0];
  convolve.inputs[2] = folding.outputs[1];
  convolve.outputs[0] = normalise.outputs[0];
  entry.nodes.erase(entry.nodes.begin() + static_cast<std::ptrdiff_t>(norm));
  entry.nodes.insert(entry.nodes.begin() + static_cast<std::ptrdiff_t>(conv), std::move(folding));
}

/// In training a normalisation is folded only where no gradient passes: the folding has none.
void fold_all(Program& program, Entry& entry) {
  std::vector<bool> is_differentiated(program.tensors.size(), false);
  if (entry.name == entry_name::kTrainStep) is_differentiated = depends_on_trained(program, entry);
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    const auto* conv = dynamic_cast<const Conv2d*>(entry.nodes[n].op.get());
    if (conv == nullptr || conv->relu) continue;
    const int reader = only_reader(entry, count_uses(program, entry), entry.nodes[n].outputs[0]);
    if (reader < 0) continue;
    const Operation& next = *entry.nodes[static_cast<size_t>(reader)].op;
    if (dynamic_cast<const BatchNormInference*>(&next) == nullptr) continue;
    const TensorId y = entry.nodes[static_cast<size_t>(reader)].outputs[0];
    if (is_differentiated[static_cast<size_t>(y)]) continue;
    fold(program, entry, n, static_cast<size_t>(reader));
    ++n;  // the convolution has moved by one
  }
}

}  // namespace

Pass fold_batch_norm() {
  auto run = [](Program& program) {
    for (Entry& entry : program.entries) fold_all(program, entry);
  };
  return {.name = "fold_batch_norm",
          .help =
              "in evaluation and where nothing is trained, let the convolution's weights do the batch "
              "normalisation behind it",
          .optional = true,
          .run = run};
}

std::optional<Pass> fold_batch_norm_pass(const PassOptions&) {
  return fold_batch_norm();
}

}  // namespace trainer
