// SPDX-License-Identifier: Apache-2.0
#include "cuda/gram_batch_norm.h"

#include "core/graph/ops/gram_batch_norm.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

template <class Op>
GramSizes sizes_of(const OpContext& context) {
  const auto& op = static_cast<const Op&>(context.op);
  const Shape& w = context.inputs[GramBatchNorm::kWeight].shape;
  return {w[0], w[1], op.rows, op.dtype};
}

std::optional<std::string> low_only(const Gpu&, const OpContext& context) {
  if (static_cast<const GramBatchNorm&>(context.op).dtype != DType::f32) return std::nullopt;
  return "moments in f32 need differences to a first value, which a Gram matrix in f32 does not keep";
}

Choice select(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "channels");
}

std::unique_ptr<Kernel> compile_forward(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  return kernel(context, [=, sizes = sizes_of<GramBatchNorm>(context),
                          eps = static_cast<const GramBatchNorm&>(context.op).eps,
                          lost = lost_variances(gpu.counters.get()), stream = gpu.stream.get()] {
    const auto &in = slots.inputs, &out = slots.outputs;
    const GramMoments tensors{.w = at<const float>(in[GramBatchNorm::kWeight]),
                              .t = at<const float>(in[GramBatchNorm::kProduct]),
                              .s = at<const float>(in[GramBatchNorm::kSums]),
                              .gamma = at<const float>(in[GramBatchNorm::kGamma]),
                              .beta = at<const float>(in[GramBatchNorm::kBeta]),
                              .folded = *out[GramBatchNorm::kFoldedWeight],
                              .bias = optional_at<void>(out[GramBatchNorm::kFoldedBias]),
                              .mean = optional_at<float>(out[GramBatchNorm::kMean]),
                              .variance = optional_at<float>(out[GramBatchNorm::kVariance]),
                              .lost = lost};
    return launch_gram_batch_norm(sizes, eps, tensors, stream);
  });
}

std::unique_ptr<Kernel> compile_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  return kernel(context, [=, sizes = sizes_of<GramBatchNormBackward>(context),
                          eps = static_cast<const GramBatchNormBackward&>(context.op).eps,
                          scale = static_cast<const GramBatchNormBackward&>(context.op).scale,
                          stream = gpu.stream.get()] {
    const auto &in = slots.inputs, &out = slots.outputs;
    const GramGradients tensors{.scale = scale,
                                .w = at<const float>(in[GramBatchNormBackward::kWeight]),
                                .t = at<const float>(in[GramBatchNormBackward::kProduct]),
                                .s = at<const float>(in[GramBatchNormBackward::kSums]),
                                .p = at<const float>(in[GramBatchNormBackward::kGradientProduct]),
                                .sum = at<const float>(in[GramBatchNormBackward::kGradientSums]),
                                .gamma = at<const float>(in[GramBatchNormBackward::kGamma]),
                                .mean = at<const float>(in[GramBatchNormBackward::kMean]),
                                .variance = at<const float>(in[GramBatchNormBackward::kVariance]),
                                .dw = at<float>(out[GramBatchNormBackward::kDweight]),
                                .dgamma = optional_at<float>(out[GramBatchNormBackward::kDgamma]),
                                .d = optional_at<void>(out[GramBatchNormBackward::kDataProduct]),
                                .e = optional_at<void>(out[GramBatchNormBackward::kDataSums])};
    return launch_gram_batch_norm_backward(sizes, eps, tensors, stream);
  });
}

}  // namespace

void add_gram_batch_norm(Handlers& handlers) {
  handlers[typeid(GramBatchNorm)] = {select, compile_forward, low_only};
  handlers[typeid(GramBatchNormBackward)] = {select, compile_backward, floats_only};
}

}  // namespace trainer::cuda
