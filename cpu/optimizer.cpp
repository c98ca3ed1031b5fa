// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/engine/step_layouts.h"
#include "core/graph/ops/optimizer_steps.h"
#include "cpu/parallel.h"
#include "cpu/parameters.h"
#include "cpu/square_sum.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// Source and destination share memory if the plan says so, and may be different memory otherwise.
template <size_t moments, class Rule>
TRAINER_MULTIVERSION void update_range(Rule rule, typename Rule::template Step<float> step, float decay,
                                       float scale, Arrays a, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float w = a.w[i];
    update::Moments<float> m;
    if (moments > 0) m.first = a.moments[0][i];
    if (moments > 1) m.second = a.moments[1][i];
    if (moments > 2) m.third = a.moments[2][i];
    rule(step, decay, scale * a.g[i], w, m);
    a.new_w[i] = w;
    if (moments > 0) a.new_moments[0][i] = m.first;
    if (moments > 1) a.new_moments[1][i] = m.second;
    if (moments > 2) a.new_moments[2][i] = m.third;
  }
}

float value_or(void* const* slot, float otherwise) {
  return slot == nullptr ? otherwise : *at<const float>(slot);
}

/// A run of the elements of one parameter, with its rule's number of moments.
template <class Rule>
void update_block(const Rule& rule, const typename Rule::template Step<float>& step, float decay, float scale,
                  const Arrays& a, int64_t count) {
  if constexpr (Rule::kMoments > 2) {
    if (a.moments[2] != nullptr) return update_range<3>(rule, step, decay, scale, a, count);
  }
  if constexpr (Rule::kMoments > 1) {
    if (a.moments[1] != nullptr) return update_range<2>(rule, step, decay, scale, a, count);
  }
  if (a.moments[0] != nullptr) return update_range<1>(rule, step, decay, scale, a, count);
  update_range<0>(rule, step, decay, scale, a, count);
}

/// The factors of each parameter's gradient and decay.
template <class Rule>
void find_ratios(const Rule& rule, const OptimizerStep& op, const Parameters& all, float scale,
                 std::vector<double>& ratios) {
  parallel_ranges(static_cast<int64_t>(all.size()), 1, 1, [&](int64_t begin, int64_t end) {
    for (auto p = static_cast<size_t>(begin); p < static_cast<size_t>(end); ++p) {
      if (!op.settings[p].adapts) continue;
      const Arrays a = all.arrays(p);
      ratios[p] = rule.ratio(op.settings[p].weight_decay, std::sqrt(square_sum(a.w, all.count(p))),
                             double{scale} * std::sqrt(square_sum(a.g, all.count(p))));
    }
  });
}

template <class Rule>
std::unique_ptr<Kernel> step_kernel(const Rule& rule, const OpContext& context, const Choice& choice,
                                    const Slots& slots) {
  const auto& op = static_cast<const OptimizerStep&>(context.op);
  return kernel([&op, rule, parameters = Parameters(context, choice, slots), in = slots.inputs,
                 ratios = std::vector<double>(op.parameters(), 1.0)]() mutable {
    if (value_or(in[OptimizerStep::kSkip], 0) != 0) return parameters.keep();
    void* const* updates = in[OptimizerStep::kUpdates];
    const float lr = *at<const float>(in[OptimizerStep::kLr]);
    const double updated = updates == nullptr ? 0 : *at<const int32_t>(updates);
    const float scale = value_or(in[OptimizerStep::kScale], 1);
    if constexpr (Rule::kAdapts) find_ratios(rule, op, parameters, scale, ratios);
    parameters.for_each_block([&](size_t p, const Arrays& arrays, int64_t begin, int64_t end) {
      const ParameterSettings& setting = op.settings[p];
      const auto step = rule.prepare(lr * static_cast<float>(setting.lr_factor), updated);
      update_block(rule, step, static_cast<float>(ratios[p] * setting.weight_decay),
                   static_cast<float>(ratios[p] * scale), arrays.from(begin), end - begin);
    });
  });
}

std::unique_ptr<Kernel> compile_step(const OpContext& context, const Choice& choice, const Slots& slots) {
  return std::visit([&](const auto& rule) { return step_kernel(rule, context, choice, slots); },
                    static_cast<const OptimizerStep&>(context.op).rule);
}

Choice select_step(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  lay_out_step(context, inputs, choice);
  return choice;
}

std::unique_ptr<Kernel> compile_clip(const OpContext& context, const Choice& choice, const Slots& slots) {
  const auto& op = static_cast<const ClipByNorm&>(context.op);
  std::vector<int64_t> counts;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    counts.push_back(stored_elements(choice.inputs[i], context.inputs[i].shape));
  }
  return kernel([max_norm = op.max_norm, eps = op.eps, lengthens = op.lengthens, counts = std::move(counts),
                 in = slots.inputs, out = slots.outputs] {
    double sum = 0;
    for (size_t i = 0; i < in.size(); ++i) sum += square_sum(at<const float>(in[i]), counts[i]);
    const double norm = std::sqrt(sum);
    const double scale = max_norm / (norm + eps);
    *at<float>(out[ClipByNorm::kScale]) = static_cast<float>(!lengthens && scale > 1 ? 1 : scale);
    if (out[ClipByNorm::kNorm] != nullptr) *at<float>(out[ClipByNorm::kNorm]) = static_cast<float>(norm);
  });
}

/// Gradients keep their layout: padding is zero and adds nothing.
Choice select_clip(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) choice.inputs[i] = inputs[i].value_or(Layout{});
  return choice;
}

std::unique_ptr<Kernel> compile_lookup(const OpContext& context, const Choice&, const Slots& slots) {
  const int64_t last = context.inputs[TableLookup::kTable].shape[0] - 1;
  return kernel([=, table = slots.inputs[TableLookup::kTable], index = slots.inputs[TableLookup::kIndex],
                 y = slots.outputs[TableLookup::kY]] {
    *at<float>(y) = at<const float>(table)[std::min<int64_t>(*at<const int32_t>(index), last)];
  });
}

std::unique_ptr<Kernel> compile_increment(const OpContext&, const Choice&, const Slots& slots) {
  return kernel([in = slots.inputs, y = slots.outputs[Increment::kNext]] {
    const bool skip = value_or(in[Increment::kSkip], 0) != 0;
    *at<int32_t>(y) = *at<const int32_t>(in[Increment::kCounter]) + (skip ? 0 : 1);
  });
}

}  // namespace

void add_optimizer(Handlers& handlers) {
  handlers[typeid(OptimizerStep)] = {select_step, compile_step, {}};
  handlers[typeid(ClipByNorm)] = {select_clip, compile_clip, {}};
  handlers[typeid(TableLookup)] = {select_row_major, compile_lookup, {}};
  handlers[typeid(Increment)] = {select_row_major, compile_increment, {}};
}

}  // namespace trainer::cpu
