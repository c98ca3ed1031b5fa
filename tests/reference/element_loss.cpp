// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/element_loss.h"

#include <cmath>

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

// Independent formulas, in double: the rules' rearrangement is checked.

/// log(1 + exp(x))
double soft_plus(double x) {
  return x > 30 ? x : std::log1p(std::exp(x));
}

struct Expected {
  double loss, gradient;
};

Expected of_rule(const element_loss::BinaryCrossEntropy&, double x, double t, double positive) {
  const double s = 1 / (1 + std::exp(-x));
  return {positive * t * soft_plus(-x) + (1 - t) * soft_plus(x), s * (positive * t + 1 - t) - positive * t};
}

Expected of_rule(const element_loss::SquaredError&, double x, double t, double) {
  return {x * x - 2 * x * t + t * t, 2 * x - 2 * t};
}

Expected of_rule(const element_loss::AbsoluteError&, double x, double t, double) {
  return {std::fabs(x - t), x == t ? 0 : std::copysign(1.0, x - t)};
}

Expected of_rule(const element_loss::Huber& rule, double x, double t, double) {
  const double d = std::fabs(x - t), delta = rule.delta, sign = std::copysign(1.0, x - t);
  if (d < delta) return {d * d / 2, x - t};
  return {delta * d - delta * delta / 2, sign * delta};
}

Expected expected(const element_loss::Rule& rule, double x, double t, double positive) {
  return std::visit([&](const auto& each) { return of_rule(each, x, t, positive); }, rule);
}

/// Calls body(element, sample's weight over its elements, its target) for each element.
template <class Op, class Body>
void for_each_element(const Call& call, const Body& body) {
  const int64_t samples = call.shape_in(Op::kX)[0], count = call.count_in(Op::kX) / samples;
  for (int64_t i = 0; i < samples * count; ++i) {
    const double positive = call.has_input(Op::kPositive) ? call.in(Op::kPositive)[i % count] : 1;
    body(i, call.in(Op::kWeights)[i / count] / static_cast<double>(count),
         expected(call.as<Op>().rule, call.in(Op::kX)[i], call.in(Op::kTargets)[i], positive));
  }
}

void element_loss_sum(const Call& call) {
  double sum = 0;
  for_each_element<ElementLoss>(call, [&](int64_t, double weight, const Expected& e) {
    if (weight != 0) sum += weight * e.loss;
  });
  call.out(ElementLoss::kLoss)[0] = sum;
}

void element_loss_backward(const Call& call) {
  const double dloss = call.in(ElementLossBackward::kDloss)[0];
  for_each_element<ElementLossBackward>(call, [&](int64_t i, double weight, const Expected& e) {
    call.out(ElementLossBackward::kDx)[i] = dloss * weight * e.gradient;
  });
}

}  // namespace

void add_element_loss(Loops& loops) {
  loops[typeid(ElementLoss)] = element_loss_sum;
  loops[typeid(ElementLossBackward)] = element_loss_backward;
}

}  // namespace trainer::reference
