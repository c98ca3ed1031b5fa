// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/loss_scale.h"

#include <limits>

#include "cuda/norms.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// Gradients stay in whatever layout they have.
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
  std::vector<ParameterPointers> gradients(context.inputs.size() - 1);
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i].count = numel(context.inputs[i + 1].shape);
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  return kernel(context, [=, max_norm = static_cast<const Unscale&>(context.op).max_norm.value_or(kNoLimit),
                          stream = gpu.stream.get()]() mutable {
    const auto &in = slots.inputs, &out = slots.outputs;
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i].g = at<const float>(in[i + 1]);
    const Unscaled to{at<float>(out[0]), optional_at<float>(out[1]),
                      out.size() > 2 ? optional_at<float>(out[2]) : nullptr};
    return launch_unscale(max_norm, at<const float>(in[0]), gradients, *slots.workspace, to, stream);
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
  return kernel(context, [in = slots.inputs, y = slots.outputs[0], count = numel(context.inputs[0].shape),
                          stream = gpu.stream.get()] {
    return launch_multiply_by(at<const float>(in[0]), at<const float>(in[1]), at<float>(y), count, stream);
  });
}

std::unique_ptr<Kernel> compile_update(const Gpu& gpu, const OpContext& context, const Choice&,
                                       const Slots& slots) {
  return kernel(context, [how = static_cast<const UpdateLossScale&>(context.op).scaling, in = slots.inputs,
                          out = slots.outputs, stream = gpu.stream.get()] {
    const LossScaleState old{at<float>(in[0]), at<int32_t>(in[1]), at<int32_t>(in[2])};
    const LossScaleState next{at<float>(out[0]), optional_at<int32_t>(out[1]), optional_at<int32_t>(out[2])};
    const float* held = in.size() > 4 ? optional_at<const float>(in[4]) : nullptr;
    return launch_update_loss_scale(how, old, at<const float>(in[3]), held, next, stream);
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
