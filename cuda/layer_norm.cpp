// SPDX-License-Identifier: Apache-2.0
#include "cuda/layer_norm.h"

#include "core/graph/ops/layer_norm.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

NormRows rows_of(const TensorSpec& x, bool rms) {
  const int64_t width = x.shape.back();
  return {.rows = numel(x.shape) / width, .width = width, .dtype = x.dtype, .rms = rms};
}

Choice select(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "rows");
}

std::unique_ptr<Kernel> compile(const Gpu& gpu, const OpContext& context, const Choice&, const Slots& slots) {
  const auto& op = static_cast<const LayerNorm&>(context.op);
  void* const* sum = slots.inputs[LayerNorm::kResidual] == nullptr ? nullptr : slots.outputs[op.sum_output()];
  void* const* mean = op.rms ? nullptr : slots.outputs[LayerNorm::kMean];
  return kernel(context, [=, rows = rows_of(context.inputs[LayerNorm::kX], op.rms), eps = op.eps,
                          stream = gpu.stream.get()] {
    const auto &in = slots.inputs, &out = slots.outputs;
    return launch_layer_norm(rows, eps,
                             {.x = *in[LayerNorm::kX],
                              .residual = optional_at<void>(in[LayerNorm::kResidual]),
                              .gamma = optional_at<const float>(in[LayerNorm::kGamma]),
                              .beta = optional_at<const float>(in[LayerNorm::kBeta]),
                              .y = *out[LayerNorm::kY],
                              .sum = optional_at<void>(sum),
                              .factor = optional_at<float>(out[LayerNorm::kFactor]),
                              .mean = optional_at<float>(mean)},
                             stream);
  });
}

Choice select_backward(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "rows");
  choice.workspace_bytes =
      layer_norm_backward_workspace(rows_of(context.inputs[LayerNormBackward::kSum], false));
  if (context.has_output(LayerNormBackward::kDgamma) ||
      context.has_output(LayerNormBackward::kDbeta)) {  // their sums read dy and x first
    choice.kernels = 2;
    choice.again_bytes =
        bytes_of(context.inputs[LayerNormBackward::kDy]) + bytes_of(context.inputs[LayerNormBackward::kSum]);
  }
  return choice;
}

std::unique_ptr<Kernel> compile_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  const auto& op = static_cast<const LayerNormBackward&>(context.op);
  return kernel(context, [=, rows = rows_of(context.inputs[LayerNormBackward::kSum], op.rms),
                          counters = gpu.counters.get(), stream = gpu.stream.get()] {
    const auto &in = slots.inputs, &out = slots.outputs;
    return launch_layer_norm_backward(rows,
                                      {.dy = *in[LayerNormBackward::kDy],
                                       .s = *in[LayerNormBackward::kSum],
                                       .other = optional_at<void>(in[LayerNormBackward::kOtherDy]),
                                       .gamma = optional_at<const float>(in[LayerNormBackward::kGamma]),
                                       .factor = at<const float>(in[LayerNormBackward::kFactor]),
                                       .mean = optional_at<const float>(in[LayerNormBackward::kMean]),
                                       .dx = *out[LayerNormBackward::kDx],
                                       .dgamma = optional_at<float>(out[LayerNormBackward::kDgamma]),
                                       .dbeta = optional_at<float>(out[LayerNormBackward::kDbeta])},
                                      {*slots.workspace, counters}, stream);
  });
}

}  // namespace

void add_layer_norm(Handlers& handlers) {
  handlers[typeid(LayerNorm)] = {select, compile, floats_only};
  handlers[typeid(LayerNormBackward)] = {select_backward, compile_backward, floats_only};
}

}  // namespace trainer::cuda
