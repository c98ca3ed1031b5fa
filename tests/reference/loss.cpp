// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/graph/ops/cross_entropy.h"
#include "tests/reference/loop.h"

namespace trainer::reference {
namespace {

/// log of the sum of exp over a row.
double log_sum_exp(const double* row, int64_t classes) {
  const double largest = *std::max_element(row, row + classes);
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - largest);
  return std::log(sum) + largest;
}

/// (1 - s) onehot + s / C
double target(int64_t c, int32_t label, double smoothing, int64_t classes) {
  return (c == label ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
}

void cross_entropy(const Call& call) {
  const double smoothing = call.as<CrossEntropy>().label_smoothing;
  const int64_t samples = call.shape_in(0)[0], classes = call.shape_in(0)[1];
  double sum = 0;
  for (int64_t n = 0; n < samples; ++n) {
    const double* row = call.in(0) + n * classes;
    const double log_sum = log_sum_exp(row, classes), weight = call.in(2)[n];
    for (int64_t c = 0; c < classes; ++c) {
      sum -= weight * target(c, call.in<int32_t>(1)[n], smoothing, classes) * (row[c] - log_sum);
    }
  }
  call.out(0)[0] = sum;
}

void cross_entropy_backward(const Call& call) {
  const double smoothing = call.as<CrossEntropyBackward>().label_smoothing;
  const int64_t samples = call.shape_in(1)[0], classes = call.shape_in(1)[1];
  for (int64_t n = 0; n < samples; ++n) {
    const double* row = call.in(1) + n * classes;
    const double log_sum = log_sum_exp(row, classes), scale = call.in(0)[0] * call.in(3)[n];
    for (int64_t c = 0; c < classes; ++c) {
      const double p = std::exp(row[c] - log_sum);
      call.out(0)[n * classes + c] = scale * (p - target(c, call.in<int32_t>(2)[n], smoothing, classes));
    }
  }
}

void top_k(const Call& call) {
  const int64_t k = call.as<TopK>().k, samples = call.shape_in(0)[0], classes = call.shape_in(0)[1];
  double sum = 0;
  for (int64_t n = 0; n < samples; ++n) {
    const double* row = call.in(0) + n * classes;
    const int32_t label = call.in<int32_t>(1)[n];
    int64_t rank = 0;
    for (int64_t c = 0; c < classes; ++c) rank += row[c] > row[label] || (row[c] == row[label] && c < label);
    if (rank < k && !std::isnan(row[label])) sum += call.in(2)[n];
  }
  call.out(0)[0] = sum;
}

}  // namespace

void add_loss(Loops& loops) {
  loops[typeid(CrossEntropy)] = cross_entropy;
  loops[typeid(CrossEntropyBackward)] = cross_entropy_backward;
  loops[typeid(TopK)] = top_k;
}

}  // namespace trainer::reference
