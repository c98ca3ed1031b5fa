// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/graph/ops/optimizer_steps.h"
#include "tests/reference/loop.h"

namespace trainer::reference {
namespace {

void sgd(const Call& call) {
  const SgdRule& rule = call.as<Sgd>().rule;
  const double lr = call.in(3)[0], scale = call.has_input(4) ? call.in(4)[0] : 1;
  for (int64_t i = 0; i < call.count_in(0); ++i) {
    double w = call.in(0)[i], m = call.has_input(2) ? call.in(2)[i] : 0;
    rule(w, scale * call.in(1)[i], m, lr);
    call.out(0)[i] = w;
    if (call.has_output(1)) call.out(1)[i] = m;
  }
}

double norm(const double* x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}

void lars(const Call& call) {
  const auto& op = call.as<Lars>();
  const int64_t count = call.count_in(0);
  const double lr = call.in(3)[0], scale = call.has_input(4) ? call.in(4)[0] : 1;
  const double w_norm = norm(call.in(0), count), g_norm = scale * norm(call.in(1), count);
  const bool adapts = w_norm > 0 && g_norm > 0;
  const double ratio = adapts ? op.trust * w_norm / (g_norm + op.rule.weight_decay * w_norm + op.eps) : 1;
  SgdRule rule = op.rule;
  rule.weight_decay = 0;
  for (int64_t i = 0; i < count; ++i) {
    double w = call.in(0)[i], m = call.has_input(2) ? call.in(2)[i] : 0;
    rule(w, ratio * (scale * call.in(1)[i] + op.rule.weight_decay * w), m, lr);
    call.out(0)[i] = w;
    if (call.has_output(1)) call.out(1)[i] = m;
  }
}

void adamw(const Call& call) {
  const AdamWRule& rule = call.as<AdamW>().rule;
  const double lr = call.in(4)[0], scale = call.has_input(6) ? call.in(6)[0] : 1;
  const double t = call.in<int32_t>(5)[0] + 1.0;
  const double correction1 = 1 - std::pow(rule.beta1, t);
  const double root_correction2 = std::sqrt(1 - std::pow(rule.beta2, t));
  for (int64_t i = 0; i < call.count_in(0); ++i) {
    double w = call.in(0)[i], m = call.in(2)[i], v = call.in(3)[i];
    rule(w, scale * call.in(1)[i], m, v, lr, correction1, root_correction2);
    call.out(0)[i] = w;
    call.out(1)[i] = m;
    call.out(2)[i] = v;
  }
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
  call.out<int32_t>(0)[0] = call.in<int32_t>(0)[0] + 1;
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
