// SPDX-License-Identifier: Apache-2.0
#include "cuda/optimizer.h"

#include "core/engine/step_layouts.h"
#include "cuda/norms.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

bool adapts(const update::Rule& rule) {
  return std::visit([](const auto& one) { return one.kAdapts; }, rule);
}

Choice select_step(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  const auto& op = static_cast<const OptimizerStep&>(context.op);
  Choice choice = row_major(context, "one pass");
  lay_out_step(context, inputs, choice);
  choice.kernels = parameter_tables(op.parameters());
  if (!adapts(op.rule)) return choice;
  choice.kernels *= 3;  // its norms, the ratios of these, the update
  std::vector<int64_t> counts;
  for (size_t p = 0; p < op.parameters(); ++p) {
    const TensorSpec& w = context.inputs[op.input_of(p)];
    counts.push_back(numel(w.shape));
    choice.again_bytes += 2 * bytes_of(w);  // with its gradient
  }
  choice.workspace_bytes = norm_workspace_bytes(counts);
  return choice;
}

std::optional<std::string> why_not_step(const Gpu&, const OpContext& context) {
  for (size_t i = OptimizerStep::kFirstParameter; i < context.inputs.size(); ++i) {
    if (context.inputs[i].dtype == DType::f32) continue;
    return "its GPU kernel takes parameters and gradients in f32, not " +
           std::string(to_string(context.inputs[i].dtype));
  }
  return std::nullopt;
}

/// The parameters of a node; addresses are looked up at each run.
class Parameters {
 public:
  Parameters(const OpContext& context, Slots slots)
      : op_(static_cast<const OptimizerStep&>(context.op)), slots_(std::move(slots)), all_(op_.parameters()) {
    for (size_t p = 0; p < all_.size(); ++p) {
      all_[p].count = numel(context.inputs[op_.input_of(p)].shape);
      all_[p].decay = static_cast<float>(op_.settings[p].weight_decay);
      all_[p].lr_factor = static_cast<float>(op_.settings[p].lr_factor);
      all_[p].adapts = op_.settings[p].adapts;
    }
  }

  std::span<const ParameterPointers> now() {
    for (size_t p = 0; p < all_.size(); ++p) {
      const size_t in = op_.input_of(p), out = op_.output_of(p);
      all_[p].w = at<const float>(slots_.inputs[in]);
      all_[p].g = at<const float>(slots_.inputs[in + 1]);
      all_[p].new_w = at<float>(slots_.outputs[out]);
      for (size_t m = 0; m < op_.moments; ++m) {
        all_[p].moments[m] = at<const float>(slots_.inputs[in + 2 + m]);
        all_[p].new_moments[m] = at<float>(slots_.outputs[out + 1 + m]);
      }
    }
    return all_;
  }

  StepScalars scalars() const {
    const auto& in = slots_.inputs;
    return {at<const float>(in[OptimizerStep::kLr]), optional_at<const int32_t>(in[OptimizerStep::kUpdates]),
            optional_at<const float>(in[OptimizerStep::kScale]),
            optional_at<const float>(in[OptimizerStep::kSkip])};
  }
  void* workspace() const { return *slots_.workspace; }

 private:
  const OptimizerStep& op_;
  Slots slots_;
  std::vector<ParameterPointers> all_;
};

std::unique_ptr<Kernel> compile_step(const Gpu& gpu, const OpContext& context, const Choice&,
                                     const Slots& slots) {
  return kernel(context, [rule = static_cast<const OptimizerStep&>(context.op).rule,
                          all = Parameters(context, slots), stream = gpu.stream.get()]() mutable {
    const auto parameters = all.now();
    const StepScalars scalars = all.scalars();
    if (!adapts(rule)) return launch_update(rule, scalars, parameters, nullptr, stream);
    const cudaError_t status = launch_ratios(rule, scalars.scale, parameters, all.workspace(), stream);
    if (status != cudaSuccess) return status;
    return launch_update(rule, scalars, parameters, static_cast<const float*>(all.workspace()), stream);
  });
}

/// Gradients keep their layout.
Choice select_clip(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = row_major(context, "norm");
  std::vector<int64_t> counts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    choice.inputs[i] = inputs[i].value_or(Layout{});
    counts.push_back(numel(context.inputs[i].shape));
  }
  choice.workspace_bytes = norm_workspace_bytes(counts);
  choice.kernels = parameter_tables(counts.size()) + 1;
  return choice;
}

std::unique_ptr<Kernel> compile_clip(const Gpu& gpu, const OpContext& context, const Choice&,
                                     const Slots& slots) {
  std::vector<ParameterPointers> gradients(context.inputs.size());
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i].count = numel(context.inputs[i].shape);
  const auto& op = static_cast<const ClipByNorm&>(context.op);
  const ClipSettings rule{.max_norm = op.max_norm, .eps = op.eps, .lengthens = op.lengthens};
  return kernel(context, [=, counters = gpu.counters.get(), stream = gpu.stream.get()]() mutable {
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i].g = at<const float>(slots.inputs[i]);
    return launch_clip(rule, gradients, {*slots.workspace, counters},
                       at<float>(slots.outputs[ClipByNorm::kScale]),
                       optional_at<float>(slots.outputs[ClipByNorm::kNorm]), stream);
  });
}

Choice select_scalars(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "one thread");
}

std::unique_ptr<Kernel> compile_lookup(const Gpu& gpu, const OpContext& context, const Choice&,
                                       const Slots& slots) {
  return kernel(context,
                [=, last = context.inputs[TableLookup::kTable].shape[0] - 1, stream = gpu.stream.get()] {
                  return launch_lookup(at<const float>(slots.inputs[TableLookup::kTable]),
                                       at<const int32_t>(slots.inputs[TableLookup::kIndex]), last,
                                       at<float>(slots.outputs[TableLookup::kY]), stream);
                });
}

std::unique_ptr<Kernel> compile_increment(const Gpu& gpu, const OpContext& context, const Choice&,
                                          const Slots& slots) {
  return kernel(context, [x = slots.inputs[Increment::kCounter], skip = slots.inputs[Increment::kSkip],
                          y = slots.outputs[Increment::kNext], stream = gpu.stream.get()] {
    return launch_increment(at<const int32_t>(x), optional_at<const float>(skip), at<int32_t>(y), stream);
  });
}

}  // namespace

void add_optimizer(Handlers& handlers) {
  handlers[typeid(OptimizerStep)] = {select_step, compile_step, why_not_step};
  handlers[typeid(ClipByNorm)] = {select_clip, compile_clip, floats_only};
  handlers[typeid(TableLookup)] = {select_scalars, compile_lookup, floats_only};
  handlers[typeid(Increment)] = {select_scalars, compile_increment, {}};
}

}  // namespace trainer::cuda
