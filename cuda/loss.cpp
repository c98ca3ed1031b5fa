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
  const LogitSizes sizes(context.inputs[CrossEntropy::kLogits].shape);
  choice.workspace_bytes = loss_workspace_bytes(sizes.samples * sizes.positions, sizes.classes);
  return choice;
}

/// As the operation `Op` reads them, with one label each.
template <class Op>
LogitRows rows_of(const LogitSizes& sizes, const Slots& slots) {
  return {sizes.samples,
          sizes.positions,
          sizes.classes,
          at<const int32_t>(slots.inputs[Op::kLabels]),
          at<const float>(slots.inputs[Op::kWeights]),
          nullptr,
          nullptr};
}

/// With other labels too, if they are given.
template <class Op>
LogitRows mixed_rows_of(const LogitSizes& sizes, const Slots& slots) {
  LogitRows rows = rows_of<Op>(sizes, slots);
  rows.other = optional_at<const int32_t>(slots.inputs[Op::kOtherLabels]);
  rows.mix_weight = optional_at<const float>(slots.inputs[Op::kMixWeights]);
  return rows;
}

std::unique_ptr<Kernel> compile_cross_entropy(const Gpu& gpu, const OpContext& context, const Choice&,
                                              const Slots& slots) {
  return kernel(context, [=, smoothing = static_cast<const CrossEntropy&>(context.op).label_smoothing,
                          sizes = LogitSizes(context.inputs[CrossEntropy::kLogits].shape),
                          dtype = context.inputs[CrossEntropy::kLogits].dtype, counters = gpu.counters.get(),
                          stream = gpu.stream.get()] {
    return launch_cross_entropy(mixed_rows_of<CrossEntropy>(sizes, slots), dtype,
                                *slots.inputs[CrossEntropy::kLogits], smoothing, {*slots.workspace, counters},
                                at<float>(slots.outputs[CrossEntropy::kLoss]), stream);
  });
}

std::unique_ptr<Kernel> compile_cross_entropy_backward(const Gpu& gpu, const OpContext& context,
                                                       const Choice&, const Slots& slots) {
  return kernel(
      context, [=, smoothing = static_cast<const CrossEntropyBackward&>(context.op).label_smoothing,
                sizes = LogitSizes(context.inputs[CrossEntropyBackward::kLogits].shape),
                dtype = context.inputs[CrossEntropyBackward::kLogits].dtype, stream = gpu.stream.get()] {
        return launch_cross_entropy_backward(mixed_rows_of<CrossEntropyBackward>(sizes, slots), dtype,
                                             *slots.inputs[CrossEntropyBackward::kLogits], smoothing,
                                             at<const float>(slots.inputs[CrossEntropyBackward::kDloss]),
                                             *slots.outputs[CrossEntropyBackward::kDlogits], stream);
      });
}

std::unique_ptr<Kernel> compile_top_k(const Gpu& gpu, const OpContext& context, const Choice&,
                                      const Slots& slots) {
  return kernel(
      context,
      [=, k = static_cast<const TopK&>(context.op).k, ignored = static_cast<const TopK&>(context.op).ignored,
       sizes = LogitSizes(context.inputs[TopK::kLogits].shape), dtype = context.inputs[TopK::kLogits].dtype,
       counters = gpu.counters.get(), stream = gpu.stream.get()] {
        return launch_top_k(rows_of<TopK>(sizes, slots), dtype, *slots.inputs[TopK::kLogits], k, ignored,
                            {*slots.workspace, counters}, at<float>(slots.outputs[TopK::kHits]), stream);
      });
}

}  // namespace

void add_loss(Handlers& handlers) {
  handlers[typeid(CrossEntropy)] = {select_sum, compile_cross_entropy, floats_only};
  handlers[typeid(CrossEntropyBackward)] = {select, compile_cross_entropy_backward, floats_only};
  handlers[typeid(TopK)] = {select_sum, compile_top_k, floats_only};
}

}  // namespace trainer::cuda
