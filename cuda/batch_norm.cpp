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

/// The given moments, if any: a table of this many ranks, or two sums.
GivenMoments given_moments(const std::vector<void* const*>& in, int64_t ranks) {
  GivenMoments given{};
  given.sums = optional_at<const float>(in[BatchNorm::kSums]);
  given.squares = optional_at<const float>(in[BatchNorm::kSquares]);
  given.table = optional_at<const float>(in[BatchNorm::kTable]);
  given.ranks = ranks;
  return given;
}

Choice select_forward(const Gpu&, const OpContext& context, const OpenLayouts&) {
  const ImageRows images = rows_of(context.inputs[BatchNorm::kX]);
  Choice choice = all_channels_last(context, "rows");
  if (static_cast<const BatchNorm&>(context.op).relu)
    choice.outputs[BatchNorm::kMask] = bytes_in_a_row(images.mask_bytes());
  if (context.has_input(BatchNorm::kTable) || context.has_input(BatchNorm::kSums)) return choice;
  choice.workspace_bytes = batch_norm_workspace_bytes(images);
  choice.kernels = 2;
  choice.again_bytes = images.bytes();
  return choice;
}

std::unique_ptr<Kernel> compile_forward(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  const auto& op = static_cast<const BatchNorm&>(context.op);
  const bool has_table = context.has_input(BatchNorm::kTable);
  const int64_t ranks = has_table ? context.inputs[BatchNorm::kTable].shape[0] : 0;
  return kernel(context, [=, images = rows_of(context.inputs[BatchNorm::kX]), eps = op.eps, relu = op.relu,
                          ceiling = static_cast<float>(op.ceiling), counters = gpu.counters.get(),
                          stream = gpu.stream.get()] {
    const auto &in = slots.inputs, &out = slots.outputs;
    const BatchNormTensors tensors{
        .x = *in[BatchNorm::kX],
        .gamma = at<const float>(in[BatchNorm::kGamma]),
        .beta = at<const float>(in[BatchNorm::kBeta]),
        .residual = optional_at<const void>(in[BatchNorm::kResidual]),
        .y = *out[BatchNorm::kY],
        .mean = optional_at<float>(out[BatchNorm::kMean]),
        .variance = optional_at<float>(out[BatchNorm::kVariance]),
        .mask = optional_at<uint8_t>(slots.output(BatchNorm::kMask)),
        .relu = relu,
        .ceiling = ceiling,
        .given = given_moments(in, ranks),
    };
    return launch_batch_norm(images, eps, tensors, {optional_at<void>(slots.workspace), counters}, stream);
  });
}

Choice select_backward(const Gpu&, const OpContext& context, const OpenLayouts&) {
  const ImageRows images = rows_of(context.inputs[BatchNormBackward::kX]);
  Choice choice = all_channels_last(context, "rows");
  if (!context.inputs[BatchNormBackward::kMask].shape.empty())
    choice.inputs[BatchNormBackward::kMask] = bytes_in_a_row(images.mask_bytes());
  choice.workspace_bytes = batch_norm_workspace_bytes(images);
  choice.kernels = 2;
  // Both passes read x, and dy with its mask or the first pass's copy of them.
  const bool keeps = context.has_output(BatchNormBackward::kDresidual);
  choice.again_bytes = 2 * images.bytes();
  if (!keeps && !context.inputs[BatchNormBackward::kMask].shape.empty())
    choice.again_bytes += images.mask_bytes();
  if (!keeps && !context.inputs[BatchNormBackward::kOtherDy].shape.empty())
    choice.again_bytes += images.bytes();
  return choice;
}

std::unique_ptr<Kernel> compile_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  const auto& op = static_cast<const BatchNormBackward&>(context.op);
  return kernel(context, [=, images = rows_of(context.inputs[BatchNormBackward::kX]), eps = op.eps,
                          residual = op.residual, counters = gpu.counters.get(), stream = gpu.stream.get()] {
    const auto &in = slots.inputs, &out = slots.outputs;
    const BatchNormGradients tensors{
        .dy = *in[BatchNormBackward::kDy],
        .other_dy = optional_at<const void>(in[BatchNormBackward::kOtherDy]),
        .x = *in[BatchNormBackward::kX],
        .gamma = at<const float>(in[BatchNormBackward::kGamma]),
        .mean = at<const float>(in[BatchNormBackward::kMean]),
        .variance = at<const float>(in[BatchNormBackward::kVariance]),
        .mask = optional_at<const uint8_t>(in[BatchNormBackward::kMask]),
        .dx = *out[BatchNormBackward::kDx],
        .masked = residual ? optional_at<void>(out[BatchNormBackward::kDresidual]) : nullptr,
        .dgamma = optional_at<float>(out[BatchNormBackward::kDgamma]),
        .dbeta = optional_at<float>(out[BatchNormBackward::kDbeta]),
    };
    return launch_batch_norm_backward(images, eps, tensors, {*slots.workspace, counters}, stream);
  });
}

Choice select_inference(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return all_channels_last(context, "rows");
}

/// Those that the operation `Op` reads.
template <class Op>
GivenStatistics given_to(const std::vector<void* const*>& in) {
  return {at<const float>(in[Op::kGamma]), at<const float>(in[Op::kBeta]), at<const float>(in[Op::kMean]),
          at<const float>(in[Op::kVariance])};
}

std::unique_ptr<Kernel> compile_inference(const Gpu& gpu, const OpContext& context, const Choice&,
                                          const Slots& slots) {
  return kernel(context,
                [=, images = rows_of(context.inputs[BatchNormInference::kX]),
                 eps = static_cast<const BatchNormInference&>(context.op).eps, stream = gpu.stream.get()] {
                  return launch_batch_norm_inference(images, eps, given_to<BatchNormInference>(slots.inputs),
                                                     *slots.inputs[BatchNormInference::kX],
                                                     *slots.outputs[BatchNormInference::kY], stream);
                });
}

/// Output channels come first in every layout of weights.
Choice select_fold(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = row_major(context, "channels");
  choice.inputs[FoldBatchNorm::kWeight] = choice.outputs[FoldBatchNorm::kFoldedWeight] =
      inputs[FoldBatchNorm::kWeight].value_or(Layout{});
  return choice;
}

std::unique_ptr<Kernel> compile_fold(const Gpu& gpu, const OpContext& context, const Choice&,
                                     const Slots& slots) {
  const TensorSpec& w = context.inputs[FoldBatchNorm::kWeight];
  return kernel(
      context, [=, channels = w.shape[0], each = numel(w.shape) / w.shape[0], dtype = w.dtype,
                eps = static_cast<const FoldBatchNorm&>(context.op).eps, stream = gpu.stream.get()] {
        return launch_fold_batch_norm(dtype, channels, each, eps, given_to<FoldBatchNorm>(slots.inputs),
                                      *slots.inputs[FoldBatchNorm::kWeight],
                                      optional_at<const float>(slots.inputs[FoldBatchNorm::kBias]),
                                      optional_at<void>(slots.outputs[FoldBatchNorm::kFoldedWeight]),
                                      optional_at<float>(slots.outputs[FoldBatchNorm::kFoldedBias]), stream);
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
