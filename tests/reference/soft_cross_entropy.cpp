// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/soft_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/graph/ops/cross_entropy.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

using Loss = SoftCrossEntropy;
using Gradient = SoftCrossEntropyBackward;

/// Where a sample's classes of one position are.
struct Place {
  LogitSizes sizes;
  bool is_image;

  explicit Place(const Shape& logits) : sizes(logits), is_image(logits.size() == 4) {}
  int64_t at(int64_t n, int64_t position, int64_t c) const {
    return is_image ? (n * sizes.classes + c) * sizes.positions + position
                    : (n * sizes.positions + position) * sizes.classes + c;
  }
};

/// log softmax(x / t) of one position.
std::vector<double> log_softmax(const double* x, const Place& place, int64_t n, int64_t position, double t) {
  std::vector<double> y;
  for (int64_t c = 0; c < place.sizes.classes; ++c) y.push_back(x[place.at(n, position, c)] / t);
  const double largest = *std::ranges::max_element(y);
  double sum = 0;
  for (const double each : y) sum += std::exp(each - largest);
  for (double& each : y) each -= largest + std::log(sum);
  return y;
}

/// Calls visit(n, position, c, log p, log q) for everything that counts.
template <class Op, class Visit>
void visit_classes(const Call& call, const Visit& visit) {
  const Place place(call.shape_in(Op::kLogits));
  const double t = call.as<Op>().temperature;
  for (int64_t n = 0; n < place.sizes.samples; ++n) {
    for (int64_t i = 0; i < place.sizes.positions; ++i) {
      const auto p = log_softmax(call.in(Op::kLogits), place, n, i, t),
                 q = log_softmax(call.in(Op::kTeacher), place, n, i, t);
      for (int64_t c = 0; c < place.sizes.classes; ++c)
        visit(n, place.at(n, i, c), p[static_cast<size_t>(c)], q[static_cast<size_t>(c)]);
    }
  }
}

void soft_cross_entropy(const Call& call) {
  const double t = call.as<Loss>().temperature;
  const auto positions = static_cast<double>(LogitSizes(call.shape_in(Loss::kLogits)).positions);
  double loss = 0;
  visit_classes<Loss>(call, [&](int64_t n, int64_t, double log_p, double log_q) {
    const double weight = call.in(Loss::kWeights)[n];
    if (weight != 0) loss -= weight / positions * t * t * std::exp(log_q) * log_p;
  });
  call.out(Loss::kLoss)[0] = loss;
}

void soft_cross_entropy_backward(const Call& call) {
  const double t = call.as<Gradient>().temperature, dloss = call.in(Gradient::kDloss)[0];
  const auto positions = static_cast<double>(LogitSizes(call.shape_in(Gradient::kLogits)).positions);
  visit_classes<Gradient>(call, [&](int64_t n, int64_t at, double log_p, double log_q) {
    const double weight = call.in(Gradient::kWeights)[n];
    call.out(Gradient::kDlogits)[at] =
        weight == 0 ? 0 : dloss * weight / positions * t * (std::exp(log_p) - std::exp(log_q));
  });
}

}  // namespace

void add_soft_cross_entropy(Loops& loops) {
  loops[typeid(Loss)] = soft_cross_entropy;
  loops[typeid(Gradient)] = soft_cross_entropy_backward;
}

}  // namespace trainer::reference
