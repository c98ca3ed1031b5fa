// SPDX-License-Identifier: Apache-2.0
#include "cuda/guards.h"

#include "core/graph/ops/keep.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

Choice select_guard(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "one warp");
}

std::unique_ptr<Kernel> compile_guard(const Gpu& gpu, const OpContext& context, const Choice&,
                                      const Slots& slots) {
  const auto& op = static_cast<const StepGuard&>(context.op);
  return kernel(
      context,
      [loss_sigmas = op.loss_sigmas, norm_sigmas = op.norm_sigmas, scaled = op.scaled, i = slots.inputs,
       o = slots.outputs, pairs = numel(context.inputs[StepGuard::kSkipSteps].shape),
       window = numel(context.inputs[StepGuard::kWindow].shape) / 2, stream = gpu.stream.get()] {
        const GuardInputs in{.loss = at<const float>(i[StepGuard::kLoss]),
                             .found = optional_at<const float>(i[StepGuard::kFound]),
                             .norm = optional_at<const float>(i[StepGuard::kNorm]),
                             .steps = optional_at<const int32_t>(i[StepGuard::kSteps]),
                             .pairs = optional_at<const int32_t>(i[StepGuard::kSkipSteps]),
                             .window = optional_at<const float>(i[StepGuard::kWindow]),
                             .accepted = optional_at<const int32_t>(i[StepGuard::kAccepted]),
                             .skipped = optional_at<const int32_t>(i[StepGuard::kSkipped]),
                             .in_a_row = optional_at<const int32_t>(i[StepGuard::kInARow]),
                             .pair_numbers = pairs,
                             .window_size = window,
                             .loss_sigmas = loss_sigmas,
                             .norm_sigmas = norm_sigmas};
        constexpr size_t kFirst = StepGuard::kFirstState;
        const GuardOutputs out{.skip = optional_at<float>(o[StepGuard::kSkip]),
                               .held = optional_at<float>(o[StepGuard::kHeld]),
                               .reason = optional_at<int32_t>(o[StepGuard::kReason]),
                               .window = optional_at<float>(o[kFirst]),
                               .accepted = optional_at<int32_t>(o[kFirst + 1]),
                               .skipped = optional_at<int32_t>(o[kFirst + 2]),
                               .in_a_row = optional_at<int32_t>(o[kFirst + 3])};
        return launch_step_guard(scaled, in, out, stream);
      });
}

Choice select_keep(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  return same_layout(context, {inputs[Keep::kOld] ? inputs[Keep::kOld] : inputs[Keep::kFresh]}, "copy");
}

std::optional<std::string> f32_only(const Gpu&, const OpContext& context) {
  const DType dtype = context.inputs[0].dtype;
  if (dtype == DType::f32) return std::nullopt;
  return "its GPU kernel takes f32, not " + std::string(to_string(dtype));
}

std::unique_ptr<Kernel> compile_keep(const Gpu& gpu, const OpContext& context, const Choice&,
                                     const Slots& slots) {
  return kernel(context, [in = slots.inputs, y = slots.outputs[Keep::kY],
                          count = numel(context.inputs[Keep::kOld].shape), stream = gpu.stream.get()] {
    return launch_keep(at<const float>(in[Keep::kOld]), at<const float>(in[Keep::kFresh]),
                       at<const float>(in[Keep::kSkip]), at<float>(y), count, stream);
  });
}

}  // namespace

void add_guards(Handlers& handlers) {
  handlers[typeid(StepGuard)] = {select_guard, compile_guard, f32_only};
  handlers[typeid(Keep)] = {select_keep, compile_keep, f32_only};
}

}  // namespace trainer::cuda
