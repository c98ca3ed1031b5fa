// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>

#include "core/engine/planner.h"
#include "core/graph/builder.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/rearrange.h"
#include "core/graph/ops/scale_pixels.h"
#include "core/passes/dependence.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

constexpr std::array<int64_t, 2> kPadded = {4,
                                            8};  // 8 and 16 bytes of a low type: the size of a thread's load

/// Bytes of images moved in a step for a convolution with this many channels: written once, read once in each
/// direction. An engine with a workspace for all images copies them there first.
int64_t moved_bytes(const Planner& planner, const Program& program, const Node& conv, int64_t channels) {
  TensorSpec x = program.spec(conv.inputs[Conv2d::kX]);
  Shape w = program.spec(conv.inputs[Conv2d::kWeight]).shape;
  x.shape[1] = w[1] = channels;
  const Conv2dBackwardWeights op(static_cast<const Conv2d&>(*conv.op).geometry, w, false);
  OpContext context{.op = op, .inputs = {x, program.spec(conv.outputs[Conv2d::kY])}, .outputs = {}};
  context.outputs = op.infer(context.inputs);
  const std::optional<int64_t> workspace = planner.untimed_workspace(context);
  if (!workspace) return std::numeric_limits<int64_t>::max();
  const int64_t images = numel(x.shape) * planner.element_bytes(x.dtype);
  return 3 * images + (*workspace >= images ? 2 * *workspace : 0);
}

/// The number of channels that the images of a convolution should have. Savings must outweigh the kernels
/// that pad the weights and cut their gradient.
int64_t best_channels(const Planner& planner, const Program& program, const Node& conv) {
  constexpr int64_t kLeastSaved = int64_t{16} << 20;  // memory moves it while two short kernels are started
  const int64_t own = program.spec(conv.inputs[Conv2d::kX]).shape[1];
  int64_t best = own, most = moved_bytes(planner, program, conv, own);
  most -= std::max(most / 10, kLeastSaved);
  for (const int64_t channels : kPadded) {
    if (channels <= own) continue;
    const int64_t bytes = moved_bytes(planner, program, conv, channels);
    if (bytes < most) best = channels, most = bytes;
  }
  return best;
}

/// The convolution that alone reads the pixels in a low type, and has a gradient of its weights; null if
/// there is none.
const Node* only_convolution(const Program& program, const Entry& entry, const Node& node) {
  if (dynamic_cast<const ScalePixels*>(node.op.get()) == nullptr) return nullptr;
  const int reader = only_reader(entry, count_uses(program, entry), node.outputs[ScalePixels::kY]);
  if (reader < 0 || program.spec(node.outputs[ScalePixels::kY]).dtype == DType::f32) return nullptr;
  const Node& found = entry.nodes[static_cast<size_t>(reader)];
  const auto* conv = dynamic_cast<const Conv2d*>(found.op.get());
  if (conv == nullptr || conv->geometry.groups != 1) return nullptr;
  return depends_on_trained(program, entry)[static_cast<size_t>(found.inputs[Conv2d::kWeight])] ? &found
                                                                                                : nullptr;
}

/// Gives the images of the entry more channels, of zeros; notes the weights that need them too.
std::map<TensorId, int64_t> pad_images(Program& program, Entry& entry, const Planner& planner) {
  std::map<TensorId, int64_t> wanted;
  for (Node& node : entry.nodes) {
    const Node* conv = only_convolution(program, entry, node);
    if (conv == nullptr) continue;
    const int64_t channels = best_channels(planner, program, *conv);
    const TensorId images = node.outputs[ScalePixels::kY];
    if (channels == program.spec(images).shape[1]) continue;
    node.op = std::make_shared<ScalePixels>(program.spec(images).dtype, channels);
    program.tensors[static_cast<size_t>(images)].spec.shape[1] = channels;
    wanted[images] = channels;
  }
  return wanted;
}

void pad_channels_in(Program& program, Entry& entry, const Planner& planner) {
  const std::map<TensorId, int64_t> wanted = pad_images(program, entry, planner);
  if (wanted.empty()) return;
  std::vector<Node> nodes;
  nodes.swap(entry.nodes);
  Builder build(program, entry);
  for (Node& node : nodes) {
    const auto found = dynamic_cast<const Conv2d*>(node.op.get()) == nullptr
                           ? wanted.end()
                           : wanted.find(node.inputs[Conv2d::kX]);
    if (found != wanted.end()) {
      TensorId& w = node.inputs[Conv2d::kWeight];
      build.set_origin(node.origin);
      w = build.emit<Pad>({w}, int64_t{1}, int64_t{0}, found->second - program.spec(w).shape[1]);
    }
    entry.nodes.push_back(std::move(node));
  }
}

}  // namespace

Pass pad_channels(const Planner& planner) {
  auto run = [&planner](Program& program) {
    pad_channels_in(program, program.entry(entry_name::kTrainStep), planner);
  };
  return {.name = "pad_channels",
          .help = "add channels of zeros to images if the first convolution's gradient then moves less",
          .optional = true,
          .run = run,
          .after = {"read_pixels"}};
}

std::optional<Pass> pad_channels_pass(const PassSettings& settings) {
  if (!settings.trains || settings.planner == nullptr || settings.pixels.empty()) return std::nullopt;
  return pad_channels(*settings.planner);
}

}  // namespace trainer
