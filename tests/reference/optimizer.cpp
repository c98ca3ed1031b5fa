// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/graph/ops/optimizer_steps.h"
#include "tests/reference/loop.h"

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

/// Calls update(p, w, g, moments) for each element, with copies that become the new values.
template <class Update>
void each_element(const Call& call, Update update) {
  const auto& op = static_cast<const OptimizerStep&>(call.op);
  const bool skip = value_or(call, OptimizerStep::kSkip, 0) != 0;
  for (size_t p = 0; p < op.parameters(); ++p) {
    const size_t in = op.input_of(p), out = op.output_of(p);
    for (int64_t i = 0; i < call.count_in(in); ++i) {
      double w = call.in(in)[i], moments[2] = {};
      for (size_t m = 0; m < op.moments; ++m) moments[m] = call.in(in + 2 + m)[i];
      if (!skip) update(p, w, call.in(in + 1)[i], moments);
      call.out(out)[i] = w;
      for (size_t m = 0; m < op.moments; ++m) call.out(out + 1 + m)[i] = moments[m];
    }
  }
}

void sgd(const Call& call) {
  const double lr = call.in(OptimizerStep::kLr)[0], scale = value_or(call, OptimizerStep::kScale, 1);
  each_element(call, [&](size_t p, double& w, double g, double* moments) {
    call.as<Sgd>().rule(p)(w, scale * g, moments[0], lr);
  });
}

void lars(const Call& call) {
  const auto& op = call.as<Lars>();
  const double lr = call.in(OptimizerStep::kLr)[0], scale = value_or(call, OptimizerStep::kScale, 1);
  std::vector<double> ratios;
  for (size_t p = 0; p < op.parameters(); ++p) {
    const size_t in = op.input_of(p);
    const double w = norm(call.in(in), call.count_in(in)),
                 g = scale * norm(call.in(in + 1), call.count_in(in));
    const bool adapts = op.adapts[p] && w > 0 && g > 0;
    ratios.push_back(adapts ? op.trust * w / (g + op.weight_decay[p] * w + op.eps) : 1);
  }
  each_element(call, [&](size_t p, double& w, double g, double* moments) {
    SgdRule rule = op.rule(p);
    rule.weight_decay = 0;
    rule(w, ratios[p] * (scale * g + op.weight_decay[p] * w), moments[0], lr);
  });
}

void adamw(const Call& call) {
  const auto& op = call.as<AdamW>();
  const double lr = call.in(OptimizerStep::kLr)[0], scale = value_or(call, OptimizerStep::kScale, 1);
  const double t = call.in<int32_t>(OptimizerStep::kUpdates)[0] + 1.0;
  each_element(call, [&](size_t p, double& w, double g, double* moments) {
    const AdamWRule rule = op.rule(p);
    rule(w, scale * g, moments[0], moments[1], lr, 1 - std::pow(rule.beta1, t),
         std::sqrt(1 - std::pow(rule.beta2, t)));
  });
}

void clip_by_norm(const Call& call) {
  double sum = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    for (int64_t e = 0; e < call.count_in(i); ++e) sum += call.in(i)[e] * call.in(i)[e];
  }
  call.out(0)[0] = std::min(1.0, call.as<ClipByNorm>().max_norm / (std::sqrt(sum) + 1e-6));
  if (call.has_output(1)) call.out(1)[0] = std::sqrt(sum);
}

void table_lookup(const Call& call) {
  call.out(0)[0] = call.in(0)[std::min<int64_t>(call.in<int32_t>(1)[0], call.count_in(0) - 1)];
}

void increment(const Call& call) {
  const bool skip = call.inputs.size() > 1 && value_or(call, 1, 0) != 0;
  call.out<int32_t>(0)[0] = call.in<int32_t>(0)[0] + (skip ? 0 : 1);
}

}  // namespace

void add_optimizer(Loops& loops) {
  loops[typeid(Sgd)] = sgd;
  loops[typeid(AdamW)] = adamw;
  loops[typeid(Lars)] = lars;
  loops[typeid(ClipByNorm)] = clip_by_norm;
  loops[typeid(TableLookup)] = table_lookup;
  loops[typeid(Increment)] = increment;
}

}  // namespace trainer::reference
