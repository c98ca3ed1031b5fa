// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "core/base/math.h"
#include "core/graph/ops/logit_sums.h"
#include "cpu/loss_rows.h"
#include "cpu/parallel.h"
#include "cpu/pixel_loss.h"
#include "cpu/table.h"

namespace trainer::cpu {

float row_max(const float* row, int64_t classes) {
  float largest = row[0];
  for (int64_t c = 1; c < classes; ++c) largest = row[c] > largest || std::isnan(row[c]) ? row[c] : largest;
  return largest;
}

TRAINER_MULTIVERSION float exp_sum(const float* row, float largest, int64_t classes) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < classes; ++c) sum += math::exp(row[c] - largest);
  return sum;
}

OwnClasses own_classes(const std::optional<ClassCut>& cut, int64_t held, const ProcessGroup* group) {
  return {cut, held, cut ? position_along(group, cut->along) : 0};
}

namespace {

/// The slots of a call's targets; without others each row has its label alone.
struct TargetSlots {
  template <class Op>
  static TargetSlots of(const std::vector<void* const*>& in) {
    return {in[Op::kLabels], in[Op::kOtherLabels], in[Op::kMixWeights]};
  }
  SoftmaxTarget row(int64_t n) const {  // of mixed samples each has one row
    const int32_t own = at<const int32_t>(label)[n];
    return other == nullptr ? SoftmaxTarget{own, own, 1}
                            : SoftmaxTarget{own, at<const int32_t>(other)[n], at<const float>(mix_weight)[n]};
  }

  void *const *label, *const *other, *const *mix_weight;
};

/// Loss of one row, in double: log-sum-exp minus the target's mean of the logits.
double row_loss(const float* row, int64_t classes, const RowSoftmax& softmax, const SoftmaxTarget& target,
                double smoothing) {
  const double log_sum = std::log(static_cast<double>(softmax.sum)) + softmax.largest;
  double mean = 0;
  if (smoothing > 0) {
    for (int64_t c = 0; c < classes; ++c) mean += row[c];
    mean /= static_cast<double>(classes);
  }
  return target.loss<double>(log_sum, row[target.label], row[target.other], mean, smoothing);
}

/// The sum over samples of weight times the mean of term(row, whether it counts) over the sample's rows.
/// Terms are found in parallel and added up in order: bitwise identical for any number of threads. Samples of
/// weight 0 do not count, even with NaN; their terms are 0.
template <class Term>
float weighted_sum(const LogitSizes& sizes, const float* weight, double* terms, const Term& term) {
  const int64_t rows = sizes.samples * sizes.positions;
  parallel_rows(rows, sizes.classes, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) terms[row] = term(row, weight[row / sizes.positions] != 0);
  });
  double sum = 0;
  for (int64_t n = 0; n < sizes.samples; ++n) {
    double of_sample = 0;
    for (int64_t p = 0; p < sizes.positions; ++p) of_sample += terms[n * sizes.positions + p];
    sum += weight[n] * of_sample;
  }
  return static_cast<float>(sum / static_cast<double>(sizes.positions));
}

/// `classes` are held, of which the last ones may be padding; labels count all ranks' classes.
TRAINER_MULTIVERSION void gradient_row(const float* row, int64_t classes, const OwnClasses& own,
                                       const RowSoftmax& softmax, const SoftmaxTarget& target, float scale,
                                       float smoothing, float* dx) {
  const float largest = softmax.largest, inverse = 1.0f / softmax.sum;
  const float even = smoothing / static_cast<float>(own.all);
  const int64_t valid = own.valid;
#pragma omp simd
  for (int64_t c = 0; c < valid; ++c) dx[c] = scale * (math::exp(row[c] - largest) * inverse - even);
  std::fill(dx + valid, dx + classes, 0.0f);
  const float sharp = scale * (1.0f - smoothing);
  const int64_t label = target.label - own.first, other = target.other - own.first;
  if (label >= 0 && label < valid) dx[label] -= sharp * target.mix_weight;
  if (target.mix_weight != 1 && other >= 0 && other < valid) dx[other] -= sharp * (1.0f - target.mix_weight);
}

/// Of one row on this rank; labels and weights are of all ranks' classes.
LogitSum logit_sum(const float* row, const OwnClasses& own, int64_t label, int64_t other,
                   const float* weights) {
  if (own.valid == 0) return {.largest = LogitSum::kNone};
  LogitSum sum{.largest = row_max(row, own.valid)};
  // Classes of which none is possible add nothing to those of other ranks.
  const bool is_possible = sum.largest != -std::numeric_limits<float>::infinity();
  sum.exp_sum = is_possible ? exp_sum(row, sum.largest, own.valid) : 0.0f;
  double all = 0;
  for (int64_t c = 0; c < own.valid; ++c)
    all += weights == nullptr ? row[c] : static_cast<double>(weights[own.first + c]) * row[c];
  sum.all = static_cast<float>(all);
  const auto logit = [&](int64_t c) {
    return c >= own.first && c < own.first + own.valid ? row[c - own.first] : 0.0f;
  };
  sum.own = logit(label);
  sum.other = logit(other);
  return sum;
}

std::unique_ptr<Kernel> compile_logit_sums(const ProcessGroup* group, const OpContext& context,
                                           const Slots& slots) {
  const int64_t rows = context.outputs[LogitSums::kSums].shape[0],
                classes = context.inputs[LogitSums::kLogits].shape.back();
  const OwnClasses own = own_classes(static_cast<const LogitSums&>(context.op).cut, classes, group);
  const auto given_other = slots.inputs[LogitSums::kOtherLabels];
  return kernel([=, x = slots.inputs[LogitSums::kLogits], labels = slots.inputs[LogitSums::kLabels],
                 others = given_other == nullptr ? slots.inputs[LogitSums::kLabels] : given_other,
                 class_weights = slots.inputs[LogitSums::kClassWeights],
                 y = slots.outputs[LogitSums::kSums]] {
    const float* weights = class_weights == nullptr ? nullptr : at<const float>(class_weights);
    parallel_rows(rows, classes, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const LogitSum sum =
            logit_sum(at<const float>(x) + row * classes, own, at<const int32_t>(labels)[row],
                      at<const int32_t>(others)[row], weights);
        const float fields[] = {sum.largest, sum.exp_sum, sum.own, sum.other, sum.all};
        static_assert(std::size(fields) == LogitSum::kFields);
        std::ranges::copy(fields, at<float>(y) + row * LogitSum::kFields);
      }
    });
  });
}

/// Without a mix each label has all weight.
std::unique_ptr<Kernel> compile_cross_entropy_of_ranks(const OpContext& context, const Choice&,
                                                       const Slots& slots) {
  using Op = CrossEntropyOfRanks;
  const auto& op = static_cast<const Op&>(context.op);
  const Shape& labels = context.inputs[Op::kLabels].shape;
  LogitSizes sizes({labels[0], numel(labels) / labels[0], op.cut.classes});
  const auto targets = TargetSlots::of<Op>(slots.inputs);
  const auto kept = SoftmaxSlots::of<Op>(slots.outputs);
  return kernel([=, ranks = op.cut.along.ranks, smoothing = op.label_smoothing,
                 rows = sizes.samples * sizes.positions, sums = slots.inputs[Op::kSums],
                 weight = slots.inputs[Op::kWeights], loss = slots.outputs[Op::kLoss],
                 workspace = slots.workspace] {
    *at<float>(loss) =
        weighted_sum(sizes, at<const float>(weight), at<double>(workspace), [=](int64_t row, bool counts) {
          const LogitSum whole = of_all_ranks(at<const float>(sums), rows, ranks, row);
          kept.put(row, {whole.largest, whole.exp_sum});
          return counts ? loss_of_ranks(whole, targets.row(row), sizes.classes, smoothing) : 0.0;
        });
  });
}

template <class Op>
Choice select_of_ranks(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  choice.workspace_bytes = numel(context.inputs[Op::kLabels].shape) * int64_t{sizeof(double)};
  return choice;
}

/// What one rank judges; exchange_logits makes that of several.
template <class Op>
std::optional<std::string> why_not_judged(const OpContext& context) {
  if (static_cast<const Op&>(context.op).cut) return "the ranks share its classes";
  return why_not_low(context);
}

std::unique_ptr<Kernel> compile_cross_entropy(const OpContext& context, const Choice&, const Slots& slots) {
  if (is_per_pixel(context.inputs[CrossEntropy::kLogits])) return compile_pixel_cross_entropy(context, slots);
  const double smoothing = static_cast<const CrossEntropy&>(context.op).label_smoothing;
  const LogitSizes sizes(context.inputs[CrossEntropy::kLogits].shape);
  const auto targets = TargetSlots::of<CrossEntropy>(slots.inputs);
  const auto kept = SoftmaxSlots::of<CrossEntropy>(slots.outputs);
  return kernel([=, x = slots.inputs[CrossEntropy::kLogits], weight = slots.inputs[CrossEntropy::kWeights],
                 loss = slots.outputs[CrossEntropy::kLoss], workspace = slots.workspace] {
    *at<float>(loss) =
        weighted_sum(sizes, at<const float>(weight), at<double>(workspace), [=](int64_t row, bool counts) {
          const float* logits = at<const float>(x) + row * sizes.classes;
          const float largest = row_max(logits, sizes.classes);
          const RowSoftmax softmax{largest, exp_sum(logits, largest, sizes.classes)};
          kept.put(row, softmax);
          return counts ? row_loss(logits, sizes.classes, softmax, targets.row(row), smoothing) : 0.0;
        });
  });
}

std::unique_ptr<Kernel> compile_cross_entropy_backward(const ProcessGroup* group, const OpContext& context,
                                                       const Slots& slots) {
  if (is_per_pixel(context.inputs[CrossEntropyBackward::kLogits]))
    return compile_pixel_cross_entropy_backward(context, slots);
  const auto smoothing =
      static_cast<float>(static_cast<const CrossEntropyBackward&>(context.op).label_smoothing);
  const LogitSizes sizes(context.inputs[CrossEntropyBackward::kLogits].shape);
  const OwnClasses own =
      own_classes(static_cast<const CrossEntropyBackward&>(context.op).cut, sizes.classes, group);
  const auto targets = TargetSlots::of<CrossEntropyBackward>(slots.inputs);
  const auto softmax = SoftmaxSlots::of<CrossEntropyBackward>(slots.inputs);
  return kernel([=, dloss = slots.inputs[CrossEntropyBackward::kDloss],
                 x = slots.inputs[CrossEntropyBackward::kLogits],
                 weight = slots.inputs[CrossEntropyBackward::kWeights],
                 dx = slots.outputs[CrossEntropyBackward::kDlogits]] {
    const float scale = *at<const float>(dloss) / static_cast<float>(sizes.positions);
    const int64_t classes = sizes.classes;
    parallel_rows(sizes.samples * sizes.positions, classes, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        gradient_row(at<const float>(x) + row * classes, classes, own, softmax.at_row(row), targets.row(row),
                     scale * at<const float>(weight)[row / sizes.positions], smoothing,
                     at<float>(dx) + row * classes);
      }
    });
  });
}

/// Classes that come before the label, which has this logit and may be one of another rank's classes.
int64_t classes_before(const float* row, int64_t classes, float of_label, int64_t label) {
  int64_t before = 0;
  for (int64_t c = 0; c < classes; ++c) before += row[c] > of_label || (row[c] == of_label && c < label);
  return before;
}

/// Whether the label is among the k largest; of equal logits the lower class comes first.
bool among_largest(const float* row, int64_t classes, int32_t label, int64_t k) {
  return !std::isnan(row[label]) && classes_before(row, classes, row[label], label) < k;
}

std::unique_ptr<Kernel> compile_classes_before(const ProcessGroup* group, const OpContext& context,
                                               const Slots& slots) {
  using Op = ClassesBefore;
  const ClassCut& cut = static_cast<const Op&>(context.op).cut;
  const int64_t rows = context.outputs[Op::kCounts].shape[0], held = context.inputs[Op::kLogits].shape.back();
  return kernel([=, own = own_classes(cut, held, group), ranks = cut.along.ranks,
                 x = slots.inputs[Op::kLogits], labels = slots.inputs[Op::kLabels],
                 sums = slots.inputs[Op::kSums], y = slots.outputs[Op::kCounts]] {
    parallel_rows(rows, held, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float of_label = of_all_ranks(at<const float>(sums), rows, ranks, row).own;
        const int64_t label = at<const int32_t>(labels)[row] - own.first;
        at<float>(y)[row] =
            static_cast<float>(classes_before(at<const float>(x) + row * held, own.valid, of_label, label));
      }
    });
  });
}

std::unique_ptr<Kernel> compile_top_k_of_ranks(const OpContext& context, const Choice&, const Slots& slots) {
  using Op = TopKOfRanks;
  const auto& op = static_cast<const Op&>(context.op);
  const Shape& labels = context.inputs[Op::kLabels].shape;
  const LogitSizes sizes({labels[0], numel(labels) / labels[0], op.cut.classes});
  return kernel(
      [=, k = op.k, ignored = op.ignored, ranks = op.cut.along.ranks, rows = sizes.samples * sizes.positions,
       before = slots.inputs[Op::kCounts], sums = slots.inputs[Op::kSums], label = slots.inputs[Op::kLabels],
       weight = slots.inputs[Op::kWeights], hits = slots.outputs[Op::kHits], workspace = slots.workspace] {
        *at<float>(hits) = weighted_sum(
            sizes, at<const float>(weight), at<double>(workspace), [=](int64_t row, bool counts) {
              const float of_label = of_all_ranks(at<const float>(sums), rows, ranks, row).own;
              const bool is_hit = counts && at<const int32_t>(label)[row] != ignored &&
                                  !std::isnan(of_label) &&
                                  at<const float>(before)[row] < static_cast<float>(k);
              return is_hit ? 1.0 : 0.0;
            });
      });
}

std::unique_ptr<Kernel> compile_top_k(const OpContext& context, const Choice&, const Slots& slots) {
  if (is_per_pixel(context.inputs[TopK::kLogits])) return compile_pixel_top_k(context, slots);
  const auto& op = static_cast<const TopK&>(context.op);
  const LogitSizes sizes(context.inputs[TopK::kLogits].shape);
  return kernel([=, k = op.k, ignored = op.ignored, x = slots.inputs[TopK::kLogits],
                 label = slots.inputs[TopK::kLabels], weight = slots.inputs[TopK::kWeights],
                 correct = slots.outputs[TopK::kHits], workspace = slots.workspace] {
    *at<float>(correct) =
        weighted_sum(sizes, at<const float>(weight), at<double>(workspace), [=](int64_t row, bool counts) {
          const float* logits = at<const float>(x) + row * sizes.classes;
          const int32_t own = at<const int32_t>(label)[row];
          return counts && own != ignored && among_largest(logits, sizes.classes, own, k) ? 1.0 : 0.0;
        });
  });
}

/// Terms of rows, or sums of the tiles of an image, wait in the workspace to be added up in order.
Choice select_sum(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  const LogitSizes sizes(context.inputs[CrossEntropy::kLogits].shape);
  choice.workspace_bytes = is_per_pixel(context.inputs[CrossEntropy::kLogits])
                               ? pixel_workspace_bytes(context.inputs[CrossEntropy::kLogits].shape)
                               : sizes.samples * sizes.positions * static_cast<int64_t>(sizeof(double));
  return choice;
}

}  // namespace

std::optional<std::string> why_not_low(const OpContext& context) {
  for (const TensorSpec& input : context.inputs) {
    if (is_low(input.dtype)) return "the CPU takes logits in f32, not " + std::string(to_string(input.dtype));
  }
  return std::nullopt;
}

void add_loss(Handlers& handlers) {
  const ProcessGroup* const group = handlers.group();
  handlers[typeid(CrossEntropy)] = {select_sum, compile_cross_entropy, why_not_judged<CrossEntropy>};
  handlers[typeid(CrossEntropyBackward)] = {select_row_major, for_rank(group, compile_cross_entropy_backward),
                                            why_not_low};
  handlers[typeid(LogitSums)] = {select_row_major, for_rank(group, compile_logit_sums), why_not_low};
  handlers[typeid(CrossEntropyOfRanks)] = {
      select_of_ranks<CrossEntropyOfRanks>, compile_cross_entropy_of_ranks, {}};
  handlers[typeid(TopK)] = {select_sum, compile_top_k, why_not_judged<TopK>};
  handlers[typeid(ClassesBefore)] = {select_row_major, for_rank(group, compile_classes_before), why_not_low};
  handlers[typeid(TopKOfRanks)] = {select_of_ranks<TopKOfRanks>, compile_top_k_of_ranks, {}};
}

}  // namespace trainer::cpu
