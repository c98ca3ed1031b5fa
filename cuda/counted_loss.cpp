// SPDX-License-Identifier: Apache-2.0
#include "cuda/counted_loss.h"

#include "core/graph/ops/cross_entropy.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// With their classes last, logits of positions are rows like those of samples.
Choice select_rows(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return all_channels_last(context, "counted rows");
}

Choice select_counted(const Gpu& gpu, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_rows(gpu, context, inputs);
  const LogitExtents extents(context.inputs[CountedCrossEntropy::kLogits].shape);
  choice.workspace_bytes = counted_workspace_bytes(extents.samples * extents.positions, extents.classes);
  choice.kernels = 2;
  return choice;
}

/// As the operation `Op` reads them.
template <class Op>
CountedRows counted_rows(const Shape& logits, const LossCounting& counting, const Slots& slots) {
  const LogitExtents extents(logits);
  const LogitRows rows{extents.samples,
                       extents.positions,
                       extents.classes,
                       at<const int32_t>(slots.inputs[Op::kLabels]),
                       at<const float>(slots.inputs[Op::kWeights]),
                       nullptr,
                       nullptr};
  return {rows, optional_at<const float>(slots.inputs[Op::kClassWeights]), counting.ignored(),
          counting.label_smoothing, counting.gamma};
}

CountedOutputs outputs_at(const Slots& slots) {
  return {{optional_at<float>(slots.outputs[0]), optional_at<float>(slots.outputs[1]),
           optional_at<float>(slots.outputs[2])}};
}

std::unique_ptr<Kernel> compile_counted(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  return kernel(context, [=, counting = static_cast<const CountedCrossEntropy&>(context.op).counting,
                          logits = context.inputs[CountedCrossEntropy::kLogits], stream = gpu.stream.get()] {
    return launch_counted(counted_rows<CountedCrossEntropy>(logits.shape, counting, slots), logits.dtype,
                          *slots.inputs[CountedCrossEntropy::kLogits], *slots.workspace, outputs_at(slots),
                          stream);
  });
}

std::unique_ptr<Kernel> compile_counted_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                                 const Slots& slots) {
  return kernel(context, [=, counting = static_cast<const CountedCrossEntropyBackward&>(context.op).counting,
                          logits = context.inputs[CountedCrossEntropyBackward::kLogits],
                          stream = gpu.stream.get()] {
    return launch_counted_backward(counted_rows<CountedCrossEntropyBackward>(logits.shape, counting, slots),
                                   logits.dtype, *slots.inputs[CountedCrossEntropyBackward::kLogits],
                                   at<const float>(slots.inputs[CountedCrossEntropyBackward::kDloss]),
                                   *slots.outputs[CountedCrossEntropyBackward::kDlogits], stream);
  });
}

std::unique_ptr<Kernel> compile_mean(const Gpu& gpu, const OpContext& context, const Choice&,
                                     const Slots& slots) {
  return kernel(context, [=, stream = gpu.stream.get()] {
    return launch_mean_of_counted(at<const float>(slots.inputs[MeanOfCounted::kSum]),
                                  at<const float>(slots.inputs[MeanOfCounted::kWeight]),
                                  at<const float>(slots.inputs[MeanOfCounted::kScale]), outputs_at(slots),
                                  stream);
  });
}

Choice select_mean(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "one thread");
}

}  // namespace

void add_counted_loss(Handlers& handlers) {
  handlers[typeid(CountedCrossEntropy)] = {select_counted, compile_counted, floats_only};
  handlers[typeid(CountedCrossEntropyBackward)] = {select_rows, compile_counted_backward, floats_only};
  handlers[typeid(MeanOfCounted)] = {select_mean, compile_mean, floats_only};
}

}  // namespace trainer::cuda
