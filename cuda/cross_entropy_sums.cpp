// SPDX-License-Identifier: Apache-2.0
#include "cuda/cross_entropy_sums.h"

#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/logit_sums.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// With their classes last, logits of positions are rows like those of samples.
Choice select_rows(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return all_channels_last(context, "rows");
}

Choice select_cross_entropy_sums(const Gpu& gpu, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_rows(gpu, context, inputs);
  const LogitSizes sizes(context.inputs[CrossEntropySums::kLogits].shape);
  choice.workspace_bytes = target_workspace_bytes(sizes.samples * sizes.positions, sizes.classes);
  choice.kernels = 2;
  return choice;
}

/// As the operation `Op` reads them.
template <class Op>
TargetRows target_rows(const Shape& logits, const CrossEntropySettings& settings, const Slots& slots) {
  const LogitSizes sizes(logits);
  const LogitRows rows{sizes.samples,
                       sizes.positions,
                       sizes.classes,
                       at<const int32_t>(slots.inputs[Op::kLabels]),
                       at<const float>(slots.inputs[Op::kWeights]),
                       nullptr,
                       nullptr,
                       sizes.classes};
  return {rows, optional_at<const float>(slots.inputs[Op::kClassWeights]), settings.ignored(),
          settings.label_smoothing, settings.gamma};
}

TargetSums outputs_at(const Slots& slots) {
  return {{optional_at<float>(slots.outputs[0]), optional_at<float>(slots.outputs[1]),
           optional_at<float>(slots.outputs[2])}};
}

std::unique_ptr<Kernel> compile_cross_entropy_sums(const Gpu& gpu, const OpContext& context, const Choice&,
                                                   const Slots& slots) {
  return kernel(context, [=, settings = static_cast<const CrossEntropySums&>(context.op).settings,
                          logits = context.inputs[CrossEntropySums::kLogits], stream = gpu.stream.get()] {
    return launch_cross_entropy_sums(target_rows<CrossEntropySums>(logits.shape, settings, slots),
                                     logits.dtype, *slots.inputs[CrossEntropySums::kLogits],
                                     {optional_at<float>(slots.outputs[CrossEntropySums::kLargest]),
                                      optional_at<float>(slots.outputs[CrossEntropySums::kExpSum])},
                                     *slots.workspace, outputs_at(slots), stream);
  });
}

OwnClasses own_classes(const Gpu& gpu, const OpContext& context) {
  const auto& cut = static_cast<const CrossEntropySumsBackward&>(context.op).cut;
  return {cut, LogitSizes(context.inputs[CrossEntropySumsBackward::kLogits].shape).classes,
          cut ? gpu.position_along(cut->along) : 0};
}

/// The logits of all ranks, as they were judged.
Shape whole_logits(const OpContext& context) {
  Shape shape = context.inputs[CrossEntropySumsOfRanks::kLabels].shape;
  shape.push_back(static_cast<const CrossEntropySumsOfRanks&>(context.op).cut.classes);
  return shape;
}

Choice select_of_ranks(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "rows");
  choice.workspace_bytes =
      targets_of_ranks_workspace_bytes(numel(context.inputs[CrossEntropySumsOfRanks::kLabels].shape));
  choice.kernels = 2;
  return choice;
}

std::unique_ptr<Kernel> compile_of_ranks(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  using Op = CrossEntropySumsOfRanks;
  const auto& op = static_cast<const Op&>(context.op);
  return kernel(context, [=, settings = op.settings, ranks = op.cut.along.ranks,
                          logits = whole_logits(context), stream = gpu.stream.get()] {
    return launch_cross_entropy_sums_of_ranks(target_rows<Op>(logits, settings, slots), ranks,
                                              at<const float>(slots.inputs[Op::kSums]),
                                              {optional_at<float>(slots.outputs[CrossEntropySums::kLargest]),
                                               optional_at<float>(slots.outputs[CrossEntropySums::kExpSum])},
                                              *slots.workspace, outputs_at(slots), stream);
  });
}

std::unique_ptr<Kernel> compile_cross_entropy_sums_backward(const Gpu& gpu, const OpContext& context,
                                                            const Choice&, const Slots& slots) {
  return kernel(context,
                [=, settings = static_cast<const CrossEntropySumsBackward&>(context.op).settings,
                 own = own_classes(gpu, context), logits = context.inputs[CrossEntropySumsBackward::kLogits],
                 stream = gpu.stream.get()] {
                  return launch_cross_entropy_sums_backward(
                      target_rows<CrossEntropySumsBackward>(logits.shape, settings, slots), own, logits.dtype,
                      *slots.inputs[CrossEntropySumsBackward::kLogits],
                      {at<const float>(slots.inputs[CrossEntropySumsBackward::kLargest]),
                       at<const float>(slots.inputs[CrossEntropySumsBackward::kExpSum])},
                      at<const float>(slots.inputs[CrossEntropySumsBackward::kDloss]),
                      *slots.outputs[CrossEntropySumsBackward::kDlogits], stream);
                });
}

std::unique_ptr<Kernel> compile_mean(const Gpu& gpu, const OpContext& context, const Choice&,
                                     const Slots& slots) {
  return kernel(context, [=, stream = gpu.stream.get()] {
    return launch_mean_over_targets(at<const float>(slots.inputs[MeanOverTargets::kSum]),
                                    at<const float>(slots.inputs[MeanOverTargets::kWeight]),
                                    at<const float>(slots.inputs[MeanOverTargets::kScale]), outputs_at(slots),
                                    stream);
  });
}

Choice select_mean(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "one thread");
}

}  // namespace

void add_cross_entropy_sums(Handlers& handlers) {
  handlers[typeid(CrossEntropySums)] = {select_cross_entropy_sums, compile_cross_entropy_sums, floats_only};
  handlers[typeid(CrossEntropySumsBackward)] = {select_rows, compile_cross_entropy_sums_backward,
                                                floats_only};
  handlers[typeid(CrossEntropySumsOfRanks)] = {select_of_ranks, compile_of_ranks, floats_only};
  handlers[typeid(MeanOverTargets)] = {select_mean, compile_mean, floats_only};
}

}  // namespace trainer::cuda
