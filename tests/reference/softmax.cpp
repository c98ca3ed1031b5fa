// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// Calls visit(first) with the place of each row's first class.
template <class Visit>
void for_each_softmax(const SoftmaxSizes& e, const Visit& visit) {
  for (int64_t row = 0; row < e.rows; ++row) {
    for (int64_t i = 0; i < e.step; ++i) visit(row * e.classes * e.step + i);
  }
}

void softmax(const Call& call) {
  const SoftmaxSizes e(call.shape_in(Softmax::kX));
  for_each_softmax(e, [&](int64_t first) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t c = 0; c < e.classes; ++c)
      largest = std::max(largest, call.in(Softmax::kX)[first + c * e.step]);
    for (int64_t c = 0; c < e.classes; ++c)
      sum += std::exp(call.in(Softmax::kX)[first + c * e.step] - largest);
    for (int64_t c = 0; c < e.classes; ++c) {
      const double log = call.in(Softmax::kX)[first + c * e.step] - largest - std::log(sum);
      call.out(Softmax::kY)[first + c * e.step] = call.as<Softmax>().log ? log : std::exp(log);
    }
  });
}

void softmax_backward(const Call& call) {
  const SoftmaxSizes e(call.shape_in(SoftmaxBackward::kDy));
  const bool log = call.as<SoftmaxBackward>().log;
  for_each_softmax(e, [&](int64_t first) {
    double sum = 0;
    for (int64_t c = 0; c < e.classes; ++c) {
      const int64_t i = first + c * e.step;
      sum += call.in(SoftmaxBackward::kDy)[i] * (log ? 1 : call.in(SoftmaxBackward::kY)[i]);
    }
    for (int64_t c = 0; c < e.classes; ++c) {
      const int64_t i = first + c * e.step;
      const double dy = call.in(SoftmaxBackward::kDy)[i], y = call.in(SoftmaxBackward::kY)[i];
      call.out(SoftmaxBackward::kDx)[i] = log ? dy - std::exp(y) * sum : y * (dy - sum);
    }
  });
}

}  // namespace

void add_softmax(Loops& loops) {
  loops[typeid(Softmax)] = softmax;
  loops[typeid(SoftmaxBackward)] = softmax_backward;
}

}  // namespace trainer::reference
