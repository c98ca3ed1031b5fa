// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/loss_scale.h"

#include <limits>

#include "cuda/norms.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// Gradients keep their layout.
Choice select_unscale(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = row_major(context, "norm");
  std::vector<int64_t> counts;
  for (size_t i = 1; i < inputs.size(); ++i) {
    choice.inputs[i] = inputs[i].value_or(Layout{});
    counts.push_back(numel(context.inputs[i].shape));
  }
  choice.workspace_bytes = norm_workspace_bytes(counts);
  choice.kernels = parameter_tables(counts.size()) + 1;
  return choice;
}

std::unique_ptr<Kernel> compile_unscale(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  std::vector<ParameterPointers> gradients(context.inputs.size() - Unscale::kFirstGradient);
  for (size_t i = 0; i < gradients.size(); ++i)
    gradients[i].count = numel(context.inputs[Unscale::kFirstGradient + i].shape);
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  return kernel(context, [=, max_norm = static_cast<const Unscale&>(context.op).max_norm.value_or(kNoLimit),
                          counters = gpu.counters.get(), stream = gpu.stream.get()]() mutable {
    const auto &in = slots.inputs, &out = slots.outputs;
    for (size_t i = 0; i < gradients.size(); ++i)
      gradients[i].g = at<const float>(in[Unscale::kFirstGradient + i]);
    const Unscaled to{at<float>(out[Unscale::kFactor]), optional_at<float>(out[Unscale::kFound]),
                      optional_at<float>(slots.output(Unscale::kNorm))};
    return launch_unscale(max_norm, at<const float>(in[Unscale::kScale]), gradients,
                          {*slots.workspace, counters}, to, stream);
  });
}

Choice select_multiply(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  return same_layout(context, inputs, "loop");
}

std::optional<std::string> f32_only(const Gpu&, const OpContext& context) {
  const DType dtype = context.inputs[0].dtype;
  if (dtype == DType::f32) return std::nullopt;
  return "its GPU kernel takes f32, not " + std::string(to_string(dtype));
}

std::unique_ptr<Kernel> compile_multiply(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  return kernel(context, [in = slots.inputs, y = slots.outputs[MultiplyBy::kY],
                          count = numel(context.inputs[MultiplyBy::kX].shape), stream = gpu.stream.get()] {
    return launch_multiply_by(at<const float>(in[MultiplyBy::kX]), at<const float>(in[MultiplyBy::kFactor]),
                              at<float>(y), count, stream);
  });
}

std::unique_ptr<Kernel> compile_update(const Gpu& gpu, const OpContext& context, const Choice&,
                                       const Slots& slots) {
  return kernel(context, [how = static_cast<const UpdateLossScale&>(context.op).scaling, in = slots.inputs,
                          out = slots.outputs, stream = gpu.stream.get()] {
    const LossScaleState old{at<float>(in[UpdateLossScale::kScale]),
                             at<int32_t>(in[UpdateLossScale::kGoodSteps]),
                             at<int32_t>(in[UpdateLossScale::kSkipped])};
    const LossScaleState next{at<float>(out[UpdateLossScale::kScale]),
                              optional_at<int32_t>(out[UpdateLossScale::kGoodSteps]),
                              optional_at<int32_t>(out[UpdateLossScale::kSkipped])};
    const float* held = optional_at<const float>(in[UpdateLossScale::kHeld]);
    return launch_update_loss_scale(how, old, at<const float>(in[UpdateLossScale::kFound]), held, next,
                                    stream);
  });
}

}  // namespace

void add_loss_scale(Handlers& handlers) {
  handlers[typeid(Unscale)] = {select_unscale, compile_unscale, f32_only};
  handlers[typeid(MultiplyBy)] = {select_multiply, compile_multiply, f32_only};
  handlers[typeid(UpdateLossScale)] = {[](const Gpu&, const OpContext& context, const OpenLayouts&) {
                                         return row_major(context, "one thread");
                                       },
                                       compile_update, f32_only};
}

}  // namespace trainer::cuda
