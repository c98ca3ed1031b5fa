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
  void* const* sum = slots.inputs[3] == nullptr ? nullptr : slots.outputs[op.sum_output()];
  void* const* mean = op.rms ? nullptr : slots.outputs[LayerNorm::kMeanOutput];
  return kernel(context,
                [=, rows = rows_of(context.inputs[0], op.rms), eps = op.eps, stream = gpu.stream.get()] {
                  const auto &in = slots.inputs, &out = slots.outputs;
                  return launch_layer_norm(rows, eps,
                                           {.x = *in[0],
                                            .residual = optional_at<void>(in[3]),
                                            .gamma = optional_at<const float>(in[1]),
                                            .beta = optional_at<const float>(in[2]),
                                            .y = *out[0],
                                            .sum = optional_at<void>(sum),
                                            .factor = optional_at<float>(out[LayerNorm::kFactorOutput]),
                                            .mean = optional_at<float>(mean)},
                                           stream);
                });
}

Choice select_backward(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "rows");
  choice.workspace_bytes = layer_norm_backward_workspace(rows_of(context.inputs[1], false));
  if (is_wanted(context, 1) || is_wanted(context, 2)) {  // their sums walk over dy and x first
    choice.kernels = 2;
    choice.again_bytes = bytes_of(context.inputs[0]) + bytes_of(context.inputs[1]);
  }
  return choice;
}

std::unique_ptr<Kernel> compile_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  const auto& op = static_cast<const LayerNormBackward&>(context.op);
  return kernel(context, [=, rows = rows_of(context.inputs[1], op.rms), counters = gpu.counters.get(),
                          stream = gpu.stream.get()] {
    const auto &in = slots.inputs, &out = slots.outputs;
    return launch_layer_norm_backward(rows,
                                      {.dy = *in[0],
                                       .s = *in[1],
                                       .other = optional_at<void>(in[LayerNormBackward::kOtherInput]),
                                       .gamma = optional_at<const float>(in[2]),
                                       .factor = at<const float>(in[3]),
                                       .mean = optional_at<const float>(in[4]),
                                       .dx = *out[0],
                                       .dgamma = optional_at<float>(out[1]),
                                       .dbeta = optional_at<float>(out[2])},
                                      {*slots.workspace, counters}, stream);
  });
}

}  // namespace

void add_layer_norm(Handlers& handlers) {
  handlers[typeid(LayerNorm)] = {select, compile, floats_only};
  handlers[typeid(LayerNormBackward)] = {select_backward, compile_backward, floats_only};
}

}  // namespace trainer::cuda
