// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/element_loss.h"

#include "cpu/loss_rows.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// Elements with losses that are added up at once.
constexpr int64_t kPart = 4096;

/// Of `count` elements; `positive` may be null.
template <class Rule>
TRAINER_MULTIVERSION double sum_of_part(Rule rule, const float* x, const float* t, const float* positive,
                                        int64_t count) {
  double sum = 0;
  if (positive == nullptr) {  // NOLINT(bugprone-branch-clone): of loops with a pragma it sees no difference
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(rule.loss(x[i], t[i], 1.0f));
  } else {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(rule.loss(x[i], t[i], positive[i]));
  }
  return sum;
}

template <class Rule>
TRAINER_MULTIVERSION void gradient_of_part(Rule rule, const float* x, const float* t, const float* positive,
                                           float scale, float* dx, int64_t count) {
  if (positive == nullptr) {  // NOLINT(bugprone-branch-clone): of loops with a pragma it sees no difference
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) dx[i] = scale * rule.gradient(x[i], t[i], 1.0f);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) dx[i] = scale * rule.gradient(x[i], t[i], positive[i]);
  }
}

/// The position of a part.
struct PlaceOfPart {
  PlaceOfPart(const ElementParts& parts, int64_t part)
      : sample(part / parts.per_sample),
        in_sample(part % parts.per_sample * parts.length),
        first(sample * parts.of_sample + in_sample),
        count(std::min(parts.length, parts.of_sample - in_sample)) {}
  int64_t sample, in_sample, first, count;
};

/// Inputs of the loss and its gradient: x, targets, weights and perhaps weights of positives.
struct LossSlots {
  template <class Op>
  static LossSlots of(const std::vector<void* const*>& in) {
    return {in[Op::kX], in[Op::kTargets], in[Op::kWeights], in[Op::kPositive]};
  }
  const float* positive_at(int64_t i) const {
    return positive == nullptr ? nullptr : at<const float>(positive) + i;
  }

  void *const *x, *const *t, *const *weight, *const *positive;
};

std::unique_ptr<Kernel> compile_element_loss(const OpContext& context, const Choice&, const Slots& slots) {
  const ElementParts parts(context.inputs[ElementLoss::kX].shape, kPart);
  const auto make = [&](auto rule) -> std::unique_ptr<Kernel> {
    return kernel([=, in = LossSlots::of<ElementLoss>(slots.inputs), workspace = slots.workspace,
                   loss = slots.outputs[ElementLoss::kLoss]] {
      const auto *x = at<const float>(in.x), *t = at<const float>(in.t), *weight = at<const float>(in.weight);
      auto* sums = at<double>(workspace);
      parallel_rows(parts.count(), std::min(parts.length, parts.of_sample), [=](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
          const PlaceOfPart place(parts, p);
          sums[p] = weight[place.sample] == 0
                        ? 0
                        : weight[place.sample] * sum_of_part(rule, x + place.first, t + place.first,
                                                             in.positive_at(place.in_sample), place.count);
        }
      });
      double sum = 0;
      for (int64_t p = 0; p < parts.count(); ++p) sum += sums[p];
      *at<float>(loss) = static_cast<float>(sum / static_cast<double>(parts.of_sample));
    });
  };
  return std::visit(make, static_cast<const ElementLoss&>(context.op).rule);
}

std::unique_ptr<Kernel> compile_element_loss_backward(const OpContext& context, const Choice&,
                                                      const Slots& slots) {
  const ElementParts parts(context.inputs[ElementLossBackward::kX].shape, kPart);
  const auto make = [&](auto rule) -> std::unique_ptr<Kernel> {
    return kernel([=, in = LossSlots::of<ElementLossBackward>(slots.inputs),
                   dloss = slots.inputs[ElementLossBackward::kDloss],
                   dx = slots.outputs[ElementLossBackward::kDx]] {
      const auto *x = at<const float>(in.x), *t = at<const float>(in.t), *weight = at<const float>(in.weight);
      const float scale = *at<const float>(dloss) / static_cast<float>(parts.of_sample);
      parallel_rows(parts.count(), std::min(parts.length, parts.of_sample), [=](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
          const PlaceOfPart place(parts, p);
          gradient_of_part(rule, x + place.first, t + place.first, in.positive_at(place.in_sample),
                           scale * weight[place.sample], at<float>(dx) + place.first, place.count);
        }
      });
    });
  };
  return std::visit(make, static_cast<const ElementLossBackward&>(context.op).rule);
}

/// Sums of parts wait in the workspace to be added up in order.
Choice select_element_loss(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  choice.workspace_bytes = ElementParts(context.inputs[ElementLoss::kX].shape, kPart).count() *
                           static_cast<int64_t>(sizeof(double));
  return choice;
}

}  // namespace

void add_element_loss(Handlers& handlers) {
  handlers[typeid(ElementLoss)] = {select_element_loss, compile_element_loss, why_not_low};
  handlers[typeid(ElementLossBackward)] = {select_row_major, compile_element_loss_backward, why_not_low};
}

}  // namespace trainer::cpu
