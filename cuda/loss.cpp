// SPDX-License-Identifier: Apache-2.0
#include "cuda/loss.h"

#include "core/graph/ops/cross_entropy.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// With their classes last, logits of positions are rows like those of samples; or they have the layout of a
/// linear layer's results.
Choice rows_choice(const OpContext& context, const OpenLayouts& inputs, size_t logits) {
  Choice choice = all_channels_last(context, "rows");
  if (const Layout rows = rows_layout(context.inputs[logits]); !rows.row_major() && inputs[logits] == rows)
    choice.inputs[logits] = rows;
  return choice;
}

Choice select_sum(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = rows_choice(context, inputs, CrossEntropy::kLogits);
  const LogitSizes sizes(context.inputs[CrossEntropy::kLogits].shape);
  choice.workspace_bytes = loss_workspace_bytes(sizes.samples * sizes.positions, sizes.classes);
  return choice;
}
static_assert(size_t{CrossEntropy::kLogits} == size_t{TopK::kLogits});

/// The gradient goes to a linear layer, in its layout.
Choice select_backward(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = rows_choice(context, inputs, CrossEntropyBackward::kLogits);
  const Layout rows = rows_layout(context.outputs[CrossEntropyBackward::kDlogits]);
  if (!rows.row_major()) choice.outputs[CrossEntropyBackward::kDlogits] = rows;
  return choice;
}

/// Elements from a row of logits to the next.
int64_t step_in(const Layout& layout, const TensorSpec& logits) {
  return layout.row_major() || layout != rows_layout(logits) ? LogitSizes(logits.shape).classes
                                                             : row_step(logits);
}

/// As the operation `Op` reads them, with one label each.
template <class Op>
LogitRows rows_of(const LogitSizes& sizes, int64_t step, const Slots& slots) {
  return {sizes.samples,
          sizes.positions,
          sizes.classes,
          at<const int32_t>(slots.inputs[Op::kLabels]),
          at<const float>(slots.inputs[Op::kWeights]),
          nullptr,
          nullptr,
          step};
}

/// With other labels too, if they are given.
template <class Op>
LogitRows mixed_rows_of(const LogitSizes& sizes, int64_t step, const Slots& slots) {
  LogitRows rows = rows_of<Op>(sizes, step, slots);
  rows.other = optional_at<const int32_t>(slots.inputs[Op::kOtherLabels]);
  rows.mix_weight = optional_at<const float>(slots.inputs[Op::kMixWeights]);
  return rows;
}

OwnClasses own_classes(const Gpu& gpu, const std::optional<ClassCut>& cut, const TensorSpec& logits) {
  return {cut, LogitSizes(logits.shape).classes, cut ? gpu.position_along(cut->along) : 0};
}

/// For operations that read labels and no weights.
template <class Op>
LogitRows labelled_rows_of(const LogitSizes& sizes, int64_t step, const Slots& slots) {
  return {.samples = sizes.samples,
          .positions = sizes.positions,
          .classes = sizes.classes,
          .label = at<const int32_t>(slots.inputs[Op::kLabels]),
          .weight = nullptr,
          .other = nullptr,
          .mix_weight = nullptr,
          .step = step};
}

std::unique_ptr<Kernel> compile_logit_sums(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                           const Slots& slots) {
  using Op = LogitSums;
  const TensorSpec& logits = context.inputs[Op::kLogits];
  const LogitSizes sizes(logits.shape);
  return kernel(context, [=, own = own_classes(gpu, static_cast<const Op&>(context.op).cut, logits),
                          step = step_in(choice.inputs[Op::kLogits], logits), dtype = logits.dtype,
                          stream = gpu.stream.get()] {
    LogitRows rows = labelled_rows_of<Op>(sizes, step, slots);
    rows.other = optional_at<const int32_t>(slots.inputs[Op::kOtherLabels]);
    return launch_logit_sums(rows, own, dtype, *slots.inputs[Op::kLogits],
                             optional_at<const float>(slots.inputs[Op::kClassWeights]),
                             at<float>(slots.outputs[Op::kSums]), stream);
  });
}

std::unique_ptr<Kernel> compile_cross_entropy_of_ranks(const Gpu& gpu, const OpContext& context,
                                                       const Choice&, const Slots& slots) {
  using Op = CrossEntropyOfRanks;
  const auto& op = static_cast<const Op&>(context.op);
  const Shape& labels = context.inputs[Op::kLabels].shape;
  const LogitSizes sizes({labels[0], numel(labels) / labels[0], op.cut.classes});
  return kernel(context, [=, smoothing = op.label_smoothing, ranks = op.cut.along.ranks,
                          counters = gpu.counters.get(), stream = gpu.stream.get()] {
    return launch_cross_entropy_of_ranks(
        mixed_rows_of<Op>(sizes, LogitSum::kFields, slots), ranks, at<const float>(slots.inputs[Op::kSums]),
        smoothing,
        {optional_at<float>(slots.outputs[Op::kLargest]), optional_at<float>(slots.outputs[Op::kExpSum])},
        {*slots.workspace, counters}, at<float>(slots.outputs[Op::kLoss]), stream);
  });
}

std::unique_ptr<Kernel> compile_classes_before(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                               const Slots& slots) {
  using Op = ClassesBefore;
  const TensorSpec& logits = context.inputs[Op::kLogits];
  const LogitSizes sizes(logits.shape);
  const ClassCut& cut = static_cast<const Op&>(context.op).cut;
  return kernel(context, [=, own = own_classes(gpu, cut, logits), ranks = cut.along.ranks,
                          step = step_in(choice.inputs[Op::kLogits], logits), dtype = logits.dtype,
                          stream = gpu.stream.get()] {
    const LogitRows rows = labelled_rows_of<Op>(sizes, step, slots);
    return launch_classes_before(rows, own, ranks, dtype, *slots.inputs[Op::kLogits],
                                 at<const float>(slots.inputs[Op::kSums]),
                                 at<float>(slots.outputs[Op::kCounts]), stream);
  });
}

std::unique_ptr<Kernel> compile_top_k_of_ranks(const Gpu& gpu, const OpContext& context, const Choice&,
                                               const Slots& slots) {
  using Op = TopKOfRanks;
  const auto& op = static_cast<const Op&>(context.op);
  const Shape& labels = context.inputs[Op::kLabels].shape;
  const LogitSizes sizes({labels[0], numel(labels) / labels[0], op.cut.classes});
  return kernel(context, [=, ranks = op.cut.along.ranks, k = op.k, ignored = op.ignored,
                          counters = gpu.counters.get(), stream = gpu.stream.get()] {
    return launch_top_k_of_ranks(rows_of<Op>(sizes, LogitSum::kFields, slots), ranks,
                                 at<const float>(slots.inputs[Op::kSums]),
                                 at<const float>(slots.inputs[Op::kCounts]), k, ignored,
                                 {*slots.workspace, counters}, at<float>(slots.outputs[Op::kHits]), stream);
  });
}

Choice select_logit_sums(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  return rows_choice(context, inputs, LogitSums::kLogits);
}
static_assert(size_t{LogitSums::kLogits} == size_t{ClassesBefore::kLogits});

template <class Op>
Choice select_of_ranks(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "rows");
  choice.workspace_bytes = sums_workspace_bytes(numel(context.inputs[Op::kLabels].shape));
  return choice;
}

std::unique_ptr<Kernel> compile_cross_entropy(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                              const Slots& slots) {
  const int64_t step = step_in(choice.inputs[CrossEntropy::kLogits], context.inputs[CrossEntropy::kLogits]);
  return kernel(context, [=, smoothing = static_cast<const CrossEntropy&>(context.op).label_smoothing,
                          sizes = LogitSizes(context.inputs[CrossEntropy::kLogits].shape),
                          dtype = context.inputs[CrossEntropy::kLogits].dtype, counters = gpu.counters.get(),
                          stream = gpu.stream.get()] {
    return launch_cross_entropy(mixed_rows_of<CrossEntropy>(sizes, step, slots), dtype,
                                *slots.inputs[CrossEntropy::kLogits], smoothing,
                                {optional_at<float>(slots.outputs[CrossEntropy::kLargest]),
                                 optional_at<float>(slots.outputs[CrossEntropy::kExpSum])},
                                {*slots.workspace, counters}, at<float>(slots.outputs[CrossEntropy::kLoss]),
                                stream);
  });
}

std::unique_ptr<Kernel> compile_cross_entropy_backward(const Gpu& gpu, const OpContext& context,
                                                       const Choice& choice, const Slots& slots) {
  using Op = CrossEntropyBackward;
  const int64_t step = step_in(choice.inputs[Op::kLogits], context.inputs[Op::kLogits]),
                dlogits_step = step_in(choice.outputs[Op::kDlogits], context.outputs[Op::kDlogits]);
  return kernel(context,
                [=, smoothing = static_cast<const CrossEntropyBackward&>(context.op).label_smoothing,
                 own = own_classes(gpu, static_cast<const CrossEntropyBackward&>(context.op).cut,
                                   context.inputs[Op::kLogits]),
                 sizes = LogitSizes(context.inputs[CrossEntropyBackward::kLogits].shape),
                 dtype = context.inputs[CrossEntropyBackward::kLogits].dtype, stream = gpu.stream.get()] {
                  return launch_cross_entropy_backward(
                      mixed_rows_of<CrossEntropyBackward>(sizes, step, slots), own, dtype,
                      *slots.inputs[CrossEntropyBackward::kLogits],
                      {at<const float>(slots.inputs[CrossEntropyBackward::kLargest]),
                       at<const float>(slots.inputs[CrossEntropyBackward::kExpSum])},
                      smoothing, at<const float>(slots.inputs[CrossEntropyBackward::kDloss]),
                      *slots.outputs[CrossEntropyBackward::kDlogits], dlogits_step, stream);
                });
}

std::unique_ptr<Kernel> compile_top_k(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                      const Slots& slots) {
  const int64_t step = step_in(choice.inputs[TopK::kLogits], context.inputs[TopK::kLogits]);
  return kernel(context, [=, k = static_cast<const TopK&>(context.op).k,
                          ignored = static_cast<const TopK&>(context.op).ignored,
                          sizes = LogitSizes(context.inputs[TopK::kLogits].shape),
                          dtype = context.inputs[TopK::kLogits].dtype, counters = gpu.counters.get(),
                          stream = gpu.stream.get()] {
    return launch_top_k(rows_of<TopK>(sizes, step, slots), dtype, *slots.inputs[TopK::kLogits], k, ignored,
                        {*slots.workspace, counters}, at<float>(slots.outputs[TopK::kHits]), stream);
  });
}

}  // namespace

void add_loss(Handlers& handlers) {
  handlers[typeid(CrossEntropy)] = {select_sum, compile_cross_entropy, floats_only};
  handlers[typeid(CrossEntropyBackward)] = {select_backward, compile_cross_entropy_backward, floats_only};
  handlers[typeid(LogitSums)] = {select_logit_sums, compile_logit_sums, floats_only};
  handlers[typeid(CrossEntropyOfRanks)] = {select_of_ranks<CrossEntropyOfRanks>,
                                           compile_cross_entropy_of_ranks, floats_only};
  handlers[typeid(ClassesBefore)] = {select_logit_sums, compile_classes_before, floats_only};
  handlers[typeid(TopKOfRanks)] = {select_of_ranks<TopKOfRanks>, compile_top_k_of_ranks, floats_only};
  handlers[typeid(TopK)] = {select_sum, compile_top_k, floats_only};
}

}  // namespace trainer::cuda
