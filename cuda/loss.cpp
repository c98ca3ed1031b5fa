// SPDX-License-Identifier: Apache-2.0
#include "cuda/loss.h"

#include "core/graph/ops/cross_entropy.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// With their classes last, logits of positions are rows like those of samples.
Choice select(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return all_channels_last(context, "rows");
}

Choice select_sum(const Gpu& gpu, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select(gpu, context, inputs);
  const LogitExtents extents(context.inputs[0].shape);
  choice.workspace_bytes = loss_workspace_bytes(extents.samples * extents.positions, extents.classes);
  return choice;
}

/// Logits are input `first` of a node, labels, weights, other labels and mix weights follow.
LogitRows rows_at(const LogitExtents& extents, const Slots& slots, size_t first) {
  const bool mixed = slots.inputs.size() > first + 3;
  return {extents.samples,
          extents.positions,
          extents.classes,
          at<const int32_t>(slots.inputs[first + 1]),
          at<const float>(slots.inputs[first + 2]),
          mixed ? at<const int32_t>(slots.inputs[first + 3]) : nullptr,
          mixed ? at<const float>(slots.inputs[first + 4]) : nullptr};
}

std::unique_ptr<Kernel> compile_cross_entropy(const Gpu& gpu, const OpContext& context, const Choice&,
                                              const Slots& slots) {
  return kernel(context, [=, smoothing = static_cast<const CrossEntropy&>(context.op).label_smoothing,
                          extents = LogitExtents(context.inputs[0].shape), dtype = context.inputs[0].dtype,
                          counters = gpu.counters.get(), stream = gpu.stream.get()] {
    return launch_cross_entropy(rows_at(extents, slots, 0), dtype, *slots.inputs[0], smoothing,
                                {*slots.workspace, counters}, at<float>(slots.outputs[0]), stream);
  });
}

std::unique_ptr<Kernel> compile_cross_entropy_backward(const Gpu& gpu, const OpContext& context,
                                                       const Choice&, const Slots& slots) {
  return kernel(context, [=, smoothing = static_cast<const CrossEntropyBackward&>(context.op).label_smoothing,
                          extents = LogitExtents(context.inputs[1].shape), dtype = context.inputs[1].dtype,
                          stream = gpu.stream.get()] {
    return launch_cross_entropy_backward(rows_at(extents, slots, 1), dtype, *slots.inputs[1], smoothing,
                                         at<const float>(slots.inputs[0]), *slots.outputs[0], stream);
  });
}

std::unique_ptr<Kernel> compile_top_k(const Gpu& gpu, const OpContext& context, const Choice&,
                                      const Slots& slots) {
  return kernel(context, [=, k = static_cast<const TopK&>(context.op).k,
                          ignored = static_cast<const TopK&>(context.op).ignored,
                          extents = LogitExtents(context.inputs[0].shape), dtype = context.inputs[0].dtype,
                          counters = gpu.counters.get(), stream = gpu.stream.get()] {
    return launch_top_k(rows_at(extents, slots, 0), dtype, *slots.inputs[0], k, ignored,
                        {*slots.workspace, counters}, at<float>(slots.outputs[0]), stream);
  });
}

}  // namespace

void add_loss(Handlers& handlers) {
  handlers[typeid(CrossEntropy)] = {select_sum, compile_cross_entropy, floats_only};
  handlers[typeid(CrossEntropyBackward)] = {select, compile_cross_entropy_backward, floats_only};
  handlers[typeid(TopK)] = {select_sum, compile_top_k, floats_only};
}

}  // namespace trainer::cuda
