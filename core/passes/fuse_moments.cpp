// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "core/engine/planner.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/conv2d.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

struct ChannelSums {
  TensorId sums, squares;
};

/// The tensors of a convolution's sums of its output and of the squares; nothing if the node
/// is not a convolution, or one whose sums the device cannot compute.
std::optional<ChannelSums> sums_of(Program& program, Node& node, const Planner& planner) {
  const auto* conv = dynamic_cast<const Conv2d*>(node.op.get());
  if (conv == nullptr) return std::nullopt;
  if (conv->moments) return ChannelSums{node.outputs[Conv2d::kSums], node.outputs[Conv2d::kSquares]};
  const auto measuring = std::make_shared<Conv2d>(conv->geometry, conv->relu, true);
  OpContext context{.op = *measuring, .inputs = specs_of(program.tensors, node.inputs), .outputs = {}};
  context.outputs = measuring->infer(context.inputs);
  if (planner.why_not(context)) return std::nullopt;
  node.op = measuring;
  for (const size_t o : {Conv2d::kSums, Conv2d::kSquares}) {
    node.outputs.push_back(
        program.add({.name = "", .spec = context.outputs[o], .role = Role::activation, .initial = {}}));
  }
  return ChannelSums{node.outputs[Conv2d::kSums], node.outputs[Conv2d::kSquares]};
}

/// A normalisation over several ranks has a table already.
void fuse_moments_in(Program& program, Entry& entry, const Planner& planner) {
  const std::vector<int> makers = makers_of(program, entry);
  for (Node& norm : entry.nodes) {
    if (dynamic_cast<const BatchNorm*>(norm.op.get()) == nullptr || is_measured(norm)) continue;
    const int maker = makers[static_cast<size_t>(norm.inputs[BatchNorm::kX])];
    if (maker < 0) continue;
    const auto sums = sums_of(program, entry.nodes[static_cast<size_t>(maker)], planner);
    if (!sums) continue;
    norm.inputs[BatchNorm::kSums] = sums->sums;
    norm.inputs[BatchNorm::kSquares] = sums->squares;
  }
}

}  // namespace

Pass fuse_moments(const Planner& planner) {
  auto run = [&planner](Program& program) {
    for (Entry& entry : program.entries) fuse_moments_in(program, entry, planner);
  };
  return {.name = "fuse_moments",
          .help =
              "let a convolution compute the moments that the following batch normalisation needs, if the "
              "device can",
          .optional = true,
          .run = run,
          .after = {"autodiff", "sync_batch_norm", "gram_batch_norm"}};
}

std::optional<Pass> fuse_moments_pass(const PassSettings& settings) {
  if (!settings.trains || settings.planner == nullptr) return std::nullopt;
  return fuse_moments(*settings.planner);
}

}  // namespace trainer
