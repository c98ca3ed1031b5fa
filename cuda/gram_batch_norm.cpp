// SPDX-License-Identifier: Apache-2.0
#include "cuda/gram_batch_norm.h"

#include "core/graph/ops/gram_batch_norm.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

template <class Op>
GramExtents extents_of(const OpContext& context) {
  const auto& op = static_cast<const Op&>(context.op);
  const Shape& w = context.inputs[0].shape;
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
  return kernel(context,
                [=, extents = extents_of<GramBatchNorm>(context),
                 eps = static_cast<const GramBatchNorm&>(context.op).eps, stream = gpu.stream.get()] {
                  const auto &in = slots.inputs, &out = slots.outputs;
                  const GramMoments tensors{.w = at<const float>(in[0]),
                                            .t = at<const float>(in[1]),
                                            .s = at<const float>(in[2]),
                                            .gamma = at<const float>(in[3]),
                                            .beta = at<const float>(in[4]),
                                            .folded = *out[0],
                                            .bias = optional_at<void>(out[1]),
                                            .mean = optional_at<float>(out[2]),
                                            .variance = optional_at<float>(out[3])};
                  return launch_gram_batch_norm(extents, eps, tensors, stream);
                });
}

std::unique_ptr<Kernel> compile_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  return kernel(context, [=, extents = extents_of<GramBatchNormBackward>(context),
                          eps = static_cast<const GramBatchNormBackward&>(context.op).eps,
                          scale = static_cast<const GramBatchNormBackward&>(context.op).scale,
                          stream = gpu.stream.get()] {
    const auto &in = slots.inputs, &out = slots.outputs;
    const GramGradients tensors{.scale = scale,
                                .w = at<const float>(in[0]),
                                .t = at<const float>(in[1]),
                                .s = at<const float>(in[2]),
                                .p = at<const float>(in[3]),
                                .sum = at<const float>(in[4]),
                                .gamma = at<const float>(in[5]),
                                .mean = at<const float>(in[6]),
                                .variance = at<const float>(in[7]),
                                .dw = at<float>(out[0]),
                                .dgamma = optional_at<float>(out[1]),
                                .d = optional_at<void>(out[2]),
                                .e = optional_at<void>(out[3])};
    return launch_gram_batch_norm_backward(extents, eps, tensors, stream);
  });
}

}  // namespace

void add_gram_batch_norm(Handlers& handlers) {
  handlers[typeid(GramBatchNorm)] = {select, compile_forward, low_only};
  handlers[typeid(GramBatchNormBackward)] = {select, compile_backward, floats_only};
}

}  // namespace trainer::cuda
