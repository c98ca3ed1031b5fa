// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/loss_scale.h"

#include <cmath>
#include <limits>

#include "core/base/multiversion.h"
#include "cpu/parallel.h"
#include "cpu/square_sum.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// In this many sections, whatever the number of threads, so that the sum has one order.
constexpr int64_t kSection = int64_t{1} << 15;

/// 0, or NaN if an element is not finite: x * 0 is NaN only then.
TRAINER_MULTIVERSION float not_finite(const float* x, int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += x[i] * 0.0f;
  return sum;
}

struct Section {
  size_t input;
  int64_t begin, count;
};

std::vector<Section> sections_of(const OpContext& context, const Choice& choice) {
  std::vector<Section> sections;
  for (size_t i = Unscale::kFirstGradient; i < context.inputs.size(); ++i) {
    const int64_t count = stored_elements(choice.inputs[i], context.inputs[i].shape);
    for (int64_t begin = 0; begin < count; begin += kSection) {
      sections.push_back({i, begin, std::min(kSection, count - begin)});
    }
  }
  return sections;
}

std::unique_ptr<Kernel> compile_unscale(const OpContext& context, const Choice& choice, const Slots& slots) {
  const std::optional<double> max_norm = static_cast<const Unscale&>(context.op).max_norm;
  const std::vector<Section> sections = sections_of(context, choice);
  return kernel(
      [=, sums = std::vector<double>(sections.size()), in = slots.inputs, out = slots.outputs]() mutable {
        parallel_rows(static_cast<int64_t>(sections.size()), kSection, [&](int64_t begin, int64_t end) {
          for (auto p = static_cast<size_t>(begin); p < static_cast<size_t>(end); ++p) {
            const float* x = at<const float>(in[sections[p].input]) + sections[p].begin;
            sums[p] = max_norm ? square_sum(x, sections[p].count) : double{not_finite(x, sections[p].count)};
          }
        });
        double sum = 0;
        for (double part : sums) sum += part;
        const double scale = *at<const float>(in[Unscale::kScale]), norm = std::sqrt(sum) / scale;
        const double wanted = max_norm ? *max_norm / (norm + 1e-6) : 1.0;
        const double share = wanted > 1 ? 1 : wanted;  // NaN stays
        *at<float>(out[Unscale::kFactor]) = static_cast<float>(share / scale);
        if (out[Unscale::kFound] != nullptr)
          *at<float>(out[Unscale::kFound]) = std::isfinite(sum) ? 0.0f : 1.0f;
        if (max_norm && out[Unscale::kNorm] != nullptr)
          *at<float>(out[Unscale::kNorm]) = static_cast<float>(norm);
      });
}

/// Gradients keep their layout: padding is zero and adds nothing.
Choice select_unscale(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) choice.inputs[i] = inputs[i].value_or(Layout{});
  return choice;
}

TRAINER_MULTIVERSION void multiply_range(float factor, const float* x, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = factor * x[i];
}

std::unique_ptr<Kernel> compile_multiply(const OpContext& context, const Choice& choice, const Slots& slots) {
  const int64_t count = stored_elements(choice.inputs[MultiplyBy::kX], context.inputs[MultiplyBy::kX].shape);
  return kernel([=, x = slots.inputs[MultiplyBy::kX], factor = slots.inputs[MultiplyBy::kFactor],
                 y = slots.outputs[MultiplyBy::kY]] {
    parallel_elements(count, [=](int64_t begin, int64_t end) {
      multiply_range(*at<const float>(factor), at<const float>(x) + begin, at<float>(y) + begin, end - begin);
    });
  });
}

std::unique_ptr<Kernel> compile_update(const OpContext& context, const Choice&, const Slots& slots) {
  const LossScaling how = static_cast<const UpdateLossScale&>(context.op).scaling;
  return kernel([=, in = slots.inputs, out = slots.outputs] {
    float scale = *at<const float>(in[UpdateLossScale::kScale]);
    int32_t good = *at<const int32_t>(in[UpdateLossScale::kGoodSteps]),
            skipped = *at<const int32_t>(in[UpdateLossScale::kSkipped]);
    void* const* given = in[UpdateLossScale::kHeld];
    const bool held = given != nullptr && *at<const float>(given) != 0;
    if (!held && *at<const float>(in[UpdateLossScale::kFound]) != 0) {
      scale = static_cast<float>(std::max(scale * how.backoff, how.smallest));
      good = 0;
      ++skipped;
    } else if (!held && ++good == how.interval) {
      const double grown = scale * how.growth;
      if (grown <= std::numeric_limits<float>::max()) scale = static_cast<float>(grown);
      good = 0;
    }
    *at<float>(out[UpdateLossScale::kScale]) = scale;
    if (out[UpdateLossScale::kGoodSteps] != nullptr) *at<int32_t>(out[UpdateLossScale::kGoodSteps]) = good;
    if (out[UpdateLossScale::kSkipped] != nullptr) *at<int32_t>(out[UpdateLossScale::kSkipped]) = skipped;
  });
}

}  // namespace

TRAINER_MULTIVERSION double square_sum(const float* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

void add_loss_scale(Handlers& handlers) {
  handlers[typeid(Unscale)] = {select_unscale, compile_unscale, {}};
  handlers[typeid(MultiplyBy)] = {
      [](const OpContext& context, const OpenLayouts& inputs) { return select_same(context, inputs, true); },
      compile_multiply,
      {}};
  handlers[typeid(UpdateLossScale)] = {select_row_major, compile_update, {}};
}

}  // namespace trainer::cpu
