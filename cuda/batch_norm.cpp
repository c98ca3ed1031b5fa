// SPDX-License-Identifier: Apache-2.0
#include "cuda/batch_norm.h"

#include "core/graph/ops/batch_norm.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

ImageRows rows_of(const TensorSpec& images) {
  const Shape& shape = images.shape;
  return {shape[0] * shape[2] * shape[3], shape[1], images.dtype};
}

/// The inputs that have moments, where somebody has measured: a table alone, or two sums.
constexpr size_t kTable = 4, kSums = 4, kSquares = 5;

GivenMoments given_moments(const std::vector<void* const*>& in, int64_t ranks) {
  GivenMoments given{};
  if (in.size() > kSquares) {
    given.sums = at<const float>(in[kSums]);
    given.squares = at<const float>(in[kSquares]);
  } else if (in.size() > kTable) {
    given.table = at<const float>(in[kTable]);
    given.ranks = ranks;
  }
  return given;
}

Choice select_forward(const Gpu&, const OpContext& context, const OpenLayouts&) {
  const ImageRows images = rows_of(context.inputs[0]);
  Choice choice = all_channels_last(context, "rows");
  if (choice.outputs.size() > 3) choice.outputs[3] = bytes_in_a_row(images.mask_bytes());
  if (context.inputs.size() > kTable) {  // somebody has measured
    return choice;
  }
  choice.workspace_bytes = batch_norm_workspace_bytes(images);
  choice.kernels = 2;
  choice.again_bytes = images.bytes();
  return choice;
}

std::unique_ptr<Kernel> compile_forward(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  const auto& op = static_cast<const BatchNorm&>(context.op);
  const int64_t ranks = context.inputs.size() > kTable ? context.inputs[kTable].shape[0] : 0;  // of a table
  return kernel(context, [=, images = rows_of(context.inputs[0]), eps = op.eps, relu = op.relu,
                          ceiling = static_cast<float>(op.ceiling), counters = gpu.counters.get(),
                          stream = gpu.stream.get()] {
    const auto &in = slots.inputs, &out = slots.outputs;
    const BatchNormTensors tensors{
        .x = *in[0],
        .gamma = at<const float>(in[1]),
        .beta = at<const float>(in[2]),
        .residual = optional_at<const void>(in[3]),
        .y = *out[0],
        .mean = optional_at<float>(out[1]),
        .variance = optional_at<float>(out[2]),
        .mask = out.size() > 3 ? optional_at<uint8_t>(out[3]) : nullptr,
        .relu = relu,
        .ceiling = ceiling,
        .given = given_moments(in, ranks),
    };
    return launch_batch_norm(images, eps, tensors, {optional_at<void>(slots.workspace), counters}, stream);
  });
}

Choice select_backward(const Gpu&, const OpContext& context, const OpenLayouts&) {
  const ImageRows images = rows_of(context.inputs[1]);
  Choice choice = all_channels_last(context, "rows");
  if (!context.inputs[5].shape.empty()) choice.inputs[5] = bytes_in_a_row(images.mask_bytes());
  choice.workspace_bytes = batch_norm_workspace_bytes(images);
  choice.kernels = 2;
  // Both walks read x, and dy with its mask or what the first one kept of them.
  const bool keeps = context.outputs.size() > 3 && !context.outputs[3].shape.empty();
  choice.again_bytes = 2 * images.bytes();
  if (!keeps && !context.inputs[5].shape.empty()) choice.again_bytes += images.mask_bytes();
  if (!keeps && !context.inputs[6].shape.empty()) choice.again_bytes += images.bytes();
  return choice;
}

std::unique_ptr<Kernel> compile_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  const auto& op = static_cast<const BatchNormBackward&>(context.op);
  return kernel(context, [=, images = rows_of(context.inputs[1]), eps = op.eps, residual = op.residual,
                          counters = gpu.counters.get(), stream = gpu.stream.get()] {
    const auto &in = slots.inputs, &out = slots.outputs;
    const BatchNormGradients tensors{
        .dy = *in[0],
        .other_dy = optional_at<const void>(in[6]),
        .x = *in[1],
        .gamma = at<const float>(in[2]),
        .mean = at<const float>(in[3]),
        .variance = at<const float>(in[4]),
        .mask = optional_at<const uint8_t>(in[5]),
        .dx = *out[0],
        .masked = residual ? optional_at<void>(out[3]) : nullptr,
        .dgamma = optional_at<float>(out[1]),
        .dbeta = optional_at<float>(out[2]),
    };
    return launch_batch_norm_backward(images, eps, tensors, {*slots.workspace, counters}, stream);
  });
}

Choice select_inference(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return all_channels_last(context, "rows");
}

GivenStatistics given_at(const std::vector<void* const*>& in, size_t gamma) {
  return {at<const float>(in[gamma]), at<const float>(in[gamma + 1]), at<const float>(in[gamma + 2]),
          at<const float>(in[gamma + 3])};
}

std::unique_ptr<Kernel> compile_inference(const Gpu& gpu, const OpContext& context, const Choice&,
                                          const Slots& slots) {
  return kernel(context,
                [=, images = rows_of(context.inputs[0]),
                 eps = static_cast<const BatchNormInference&>(context.op).eps, stream = gpu.stream.get()] {
                  return launch_batch_norm_inference(images, eps, given_at(slots.inputs, 1), *slots.inputs[0],
                                                     *slots.outputs[0], stream);
                });
}

/// Output channels come first in every layout of weights.
Choice select_fold(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = row_major(context, "channels");
  choice.inputs[0] = choice.outputs[0] = inputs[0].value_or(Layout{});
  return choice;
}

std::unique_ptr<Kernel> compile_fold(const Gpu& gpu, const OpContext& context, const Choice&,
                                     const Slots& slots) {
  const TensorSpec& w = context.inputs[0];
  return kernel(context,
                [=, channels = w.shape[0], each = numel(w.shape) / w.shape[0], dtype = w.dtype,
                 eps = static_cast<const FoldBatchNorm&>(context.op).eps, stream = gpu.stream.get()] {
                  return launch_fold_batch_norm(dtype, channels, each, eps, given_at(slots.inputs, 2),
                                                *slots.inputs[0], optional_at<const float>(slots.inputs[1]),
                                                *slots.outputs[0], at<float>(slots.outputs[1]), stream);
                });
}

}  // namespace

void add_batch_norm(Handlers& handlers) {
  handlers[typeid(BatchNorm)] = {select_forward, compile_forward, floats_only};
  handlers[typeid(BatchNormBackward)] = {select_backward, compile_backward, floats_only};
  handlers[typeid(BatchNormInference)] = {select_inference, compile_inference, floats_only};
  handlers[typeid(FoldBatchNorm)] = {select_fold, compile_fold, floats_only};
}

}  // namespace trainer::cuda
