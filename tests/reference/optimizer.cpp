// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/graph/ops/optimizer_steps.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

double value_or(const Call& call, size_t input, double otherwise) {
  return call.has_input(input) ? call.in(input)[0] : otherwise;
}

double norm(const double* x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}

/// The factor of a parameter's gradient and decay.
template <class Rule>
double ratio_of(const Call& call, const Rule& rule, size_t p, double scale) {
  if constexpr (Rule::kAdapts) {
    const auto& op = call.as<OptimizerStep>();
    const size_t in = op.input_of(p);
    const int64_t count = call.count_in(in);
    if (op.settings[p].adapts)
      return rule.ratio(op.settings[p].weight_decay, norm(call.in(in), count),
                        scale * norm(call.in(in + 1), count));
  }
  return 1;
}

template <class Rule>
void step(const Call& call, const Rule& rule) {
  const auto& op = call.as<OptimizerStep>();
  const bool skip = value_or(call, OptimizerStep::kSkip, 0) != 0;
  const double scale = value_or(call, OptimizerStep::kScale, 1);
  const double updates =
      call.has_input(OptimizerStep::kUpdates) ? call.in<int32_t>(OptimizerStep::kUpdates)[0] : 0;
  for (size_t p = 0; p < op.parameters(); ++p) {
    const size_t in = op.input_of(p), out = op.output_of(p);
    const double ratio = ratio_of(call, rule, p, scale);
    const ParameterSettings& setting = op.settings[p];
    const auto shared = rule.prepare(call.in(OptimizerStep::kLr)[0] * setting.lr_factor, updates);
    for (int64_t i = 0; i < call.count_in(in); ++i) {
      double w = call.in(in)[i], moments[update::kMostMoments] = {};
      for (size_t m = 0; m < op.moments; ++m) moments[m] = call.in(in + 2 + m)[i];
      update::Moments<double> own{moments[0], moments[1], moments[2]};
      if (!skip) rule(shared, ratio * setting.weight_decay, ratio * scale * call.in(in + 1)[i], w, own);
      moments[0] = own.first, moments[1] = own.second, moments[2] = own.third;
      call.out(out)[i] = w;
      for (size_t m = 0; m < op.moments; ++m) call.out(out + 1 + m)[i] = moments[m];
    }
  }
}

void optimizer_step(const Call& call) {
  std::visit([&](const auto& rule) { step(call, rule); }, call.as<OptimizerStep>().rule);
}

void clip_by_norm(const Call& call) {
  const auto& op = call.as<ClipByNorm>();
  double sum = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    for (int64_t e = 0; e < call.count_in(i); ++e) sum += call.in(i)[e] * call.in(i)[e];
  }
  const double scale = op.max_norm / (std::sqrt(sum) + op.eps);
  call.out(ClipByNorm::kScale)[0] = !op.lengthens && scale > 1 ? 1 : scale;
  if (call.has_output(ClipByNorm::kNorm)) call.out(ClipByNorm::kNorm)[0] = std::sqrt(sum);
}

void table_lookup(const Call& call) {
  call.out(TableLookup::kY)[0] = call.in(TableLookup::kTable)[std::min<int64_t>(
      call.in<int32_t>(TableLookup::kIndex)[0], call.count_in(TableLookup::kTable) - 1)];
}

void increment(const Call& call) {
  const bool skip = value_or(call, Increment::kSkip, 0) != 0;
  call.out<int32_t>(Increment::kNext)[0] = call.in<int32_t>(Increment::kCounter)[0] + (skip ? 0 : 1);
}

}  // namespace

void add_optimizer(Loops& loops) {
  loops[typeid(OptimizerStep)] = optimizer_step;
  loops[typeid(ClipByNorm)] = clip_by_norm;
  loops[typeid(TableLookup)] = table_lookup;
  loops[typeid(Increment)] = increment;
}

}  // namespace trainer::reference
