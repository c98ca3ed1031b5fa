// SPDX-License-Identifier: Apache-2.0
#include "cuda/group_norm.h"

#include "core/graph/ops/group_norm.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

GroupedImages images_of(const TensorSpec& x, int64_t groups) {
  return {.samples = x.shape[0],
          .pixels = x.shape[2] * x.shape[3],
          .channels = x.shape[1],
          .groups = groups,
          .dtype = x.dtype};
}

Choice select(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = all_channels_last(context, "groups");
  choice.workspace_bytes = group_norm_workspace(
      images_of(context.inputs[GroupNorm::kX], static_cast<const GroupNorm&>(context.op).groups));
  choice.kernels = 3;
  choice.again_bytes = bytes_of(context.inputs[GroupNorm::kX]);
  return choice;
}

std::unique_ptr<Kernel> compile(const Gpu& gpu, const OpContext& context, const Choice&, const Slots& slots) {
  const auto& op = static_cast<const GroupNorm&>(context.op);
  return kernel(context, [=, images = images_of(context.inputs[GroupNorm::kX], op.groups), eps = op.eps,
                          stream = gpu.stream.get()] {
    const auto &in = slots.inputs, &out = slots.outputs;
    return launch_group_norm(images, eps,
                             {.x = *in[GroupNorm::kX],
                              .gamma = optional_at<const float>(in[GroupNorm::kGamma]),
                              .beta = optional_at<const float>(in[GroupNorm::kBeta]),
                              .y = *out[GroupNorm::kY],
                              .mean = optional_at<float>(out[GroupNorm::kMean]),
                              .factor = optional_at<float>(out[GroupNorm::kFactor])},
                             *slots.workspace, stream);
  });
}

Choice select_backward(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = all_channels_last(context, "groups");
  choice.workspace_bytes = group_norm_workspace(images_of(
      context.inputs[GroupNormBackward::kX], static_cast<const GroupNormBackward&>(context.op).groups));
  choice.kernels =
      context.has_output(GroupNormBackward::kDgamma) || context.has_output(GroupNormBackward::kDbeta) ? 4 : 3;
  choice.again_bytes =
      bytes_of(context.inputs[GroupNormBackward::kDy]) + bytes_of(context.inputs[GroupNormBackward::kX]);
  return choice;
}

std::unique_ptr<Kernel> compile_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  const auto& op = static_cast<const GroupNormBackward&>(context.op);
  return kernel(context, [=, images = images_of(context.inputs[GroupNormBackward::kX], op.groups),
                          stream = gpu.stream.get()] {
    const auto &in = slots.inputs, &out = slots.outputs;
    return launch_group_norm_backward(images,
                                      {.dy = *in[GroupNormBackward::kDy],
                                       .x = *in[GroupNormBackward::kX],
                                       .gamma = optional_at<const float>(in[GroupNormBackward::kGamma]),
                                       .mean = at<const float>(in[GroupNormBackward::kMean]),
                                       .factor = at<const float>(in[GroupNormBackward::kFactor]),
                                       .dx = *out[GroupNormBackward::kDx],
                                       .dgamma = optional_at<float>(out[GroupNormBackward::kDgamma]),
                                       .dbeta = optional_at<float>(out[GroupNormBackward::kDbeta])},
                                      *slots.workspace, stream);
  });
}

}  // namespace

void add_group_norm(Handlers& handlers) {
  handlers[typeid(GroupNorm)] = {select, compile, floats_only};
  handlers[typeid(GroupNormBackward)] = {select_backward, compile_backward, floats_only};
}

}  // namespace trainer::cuda
