// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/cross_entropy_sums.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// The logits (C) of a sample's position, with its label and weights.
struct Position {
  std::vector<double> row;
  int64_t sample;
  int32_t label;
  int64_t first, stride;  ///< the row's position: first + c * stride
  double weight;          ///< the sample's, divided by its number of positions
};

/// Calls body(position) for each position of a call of the operation `Op`.
template <class Op, class Body>
void for_each_position(const Call& call, const Body& body) {
  const LogitSizes sizes(call.shape_in(Op::kLogits));
  const bool is_image = call.shape_in(Op::kLogits).size() == 4;
  Position position{.row = std::vector<double>(static_cast<size_t>(sizes.classes)),
                    .stride = is_image ? sizes.positions : 1};
  for (int64_t n = 0; n < sizes.samples; ++n) {
    for (int64_t p = 0; p < sizes.positions; ++p) {
      position.sample = n;
      position.label = call.in<int32_t>(Op::kLabels)[n * sizes.positions + p];
      position.weight = call.in(Op::kWeights)[n] / static_cast<double>(sizes.positions);
      position.first = n * sizes.classes * sizes.positions + (is_image ? p : p * sizes.classes);
      for (size_t c = 0; c < position.row.size(); ++c)
        position.row[c] = call.in(Op::kLogits)[position.first + static_cast<int64_t>(c) * position.stride];
      body(position);
    }
  }
}

/// log of the sum of exp over a row.
double log_sum_exp(const std::vector<double>& row) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (double x : row) sum += std::exp(x - largest);
  return std::log(sum) + largest;
}

/// Each row's largest logit and sum of exp(x - largest), where they are wanted.
template <class Op>
void keep_softmax(const Call& call) {
  int64_t at = 0;
  for_each_position<Op>(call, [&](const Position& position) {
    const double largest = *std::max_element(position.row.begin(), position.row.end());
    if (call.has_output(Op::kLargest)) call.out(Op::kLargest)[at] = largest;
    if (call.has_output(Op::kExpSum))
      call.out(Op::kExpSum)[at] = std::exp(log_sum_exp(position.row) - largest);
    ++at;
  });
}

/// (1 - s) (m onehot(label) + (1 - m) onehot(other)) + s / C.
template <class Op>
std::vector<double> target(const Call& call, const Position& position, double smoothing) {
  std::vector<double> target(position.row.size(), smoothing / static_cast<double>(position.row.size()));
  const bool mixed = call.has_input(Op::kOtherLabels);
  const double mix_weight = mixed ? call.in(Op::kMixWeights)[position.sample] : 1;
  target[static_cast<size_t>(position.label)] += (1 - smoothing) * mix_weight;
  if (mixed) {
    const int32_t other = call.in<int32_t>(Op::kOtherLabels)[position.sample];
    target[static_cast<size_t>(other)] += (1 - smoothing) * (1 - mix_weight);
  }
  return target;
}

void cross_entropy(const Call& call) {
  double sum = 0;
  for_each_position<CrossEntropy>(call, [&](const Position& position) {
    const std::vector<double> t =
        target<CrossEntropy>(call, position, call.as<CrossEntropy>().label_smoothing);
    const double log_sum = log_sum_exp(position.row);
    for (size_t c = 0; c < t.size(); ++c) {
      if (t[c] != 0) sum -= position.weight * t[c] * (position.row[c] - log_sum);  // else 0, of -infinity too
    }
  });
  call.out(CrossEntropy::kLoss)[0] = sum;
  keep_softmax<CrossEntropy>(call);
}

void cross_entropy_backward(const Call& call) {
  for_each_position<CrossEntropyBackward>(call, [&](const Position& position) {
    const std::vector<double> t =
        target<CrossEntropyBackward>(call, position, call.as<CrossEntropyBackward>().label_smoothing);
    const double log_sum = log_sum_exp(position.row),
                 scale = call.in(CrossEntropyBackward::kDloss)[0] * position.weight;
    double* dx = call.out(CrossEntropyBackward::kDlogits) + position.first;
    for (size_t c = 0; c < t.size(); ++c)
      dx[static_cast<int64_t>(c) * position.stride] = scale * (std::exp(position.row[c] - log_sum) - t[c]);
  });
}

void top_k(const Call& call) {
  double sum = 0;
  const auto& op = call.as<TopK>();
  for_each_position<TopK>(call, [&](const Position& position) {
    if (position.label == op.ignored) return;
    const auto label = static_cast<size_t>(position.label);
    const double own = position.row[label];
    int64_t rank = 0;
    for (size_t c = 0; c < position.row.size(); ++c)
      rank += position.row[c] > own || (position.row[c] == own && c < label);
    if (rank < op.k && !std::isnan(own)) sum += position.weight;
  });
  call.out(TopK::kHits)[0] = sum;
}

/// Of class c; 1 if classes have none.
template <class Op>
double class_weight(const Call& call, size_t c) {
  return call.has_input(Op::kClassWeights) ? call.in(Op::kClassWeights)[c] : 1;
}

/// The factor of each log p[c] of a position in its loss, without the sign.
template <class Op>
std::vector<double> valid_target(const Call& call, const Position& position,
                                 const CrossEntropySettings& settings) {
  std::vector<double> target(position.row.size());
  const double even = settings.label_smoothing / static_cast<double>(target.size());
  for (size_t c = 0; even != 0 && c < target.size(); ++c) target[c] = even * class_weight<Op>(call, c);
  const auto label = static_cast<size_t>(position.label);
  target[label] += (1 - settings.label_smoothing) * class_weight<Op>(call, label);
  return target;
}

/// (1 - p)^gamma, p that of the position's label.
double focus(const Position& position, double log_sum, double gamma) {
  const double log_p = position.row[static_cast<size_t>(position.label)] - log_sum;
  return gamma == 0 ? 1 : std::pow(-std::expm1(log_p), gamma);
}

/// The derivative of (1 - p)^gamma log p by log p.
double focus_gradient(const Position& position, double log_sum, double gamma) {
  const double log_p = position.row[static_cast<size_t>(position.label)] - log_sum, rest = -std::expm1(log_p);
  if (gamma == 0) return 1;
  if (rest == 0) return 0;
  return std::pow(rest, gamma) - gamma * std::pow(rest, gamma - 1) * std::exp(log_p) * log_p;
}

void cross_entropy_sums(const Call& call) {
  const CrossEntropySettings& settings = call.as<CrossEntropySums>().settings;
  double sums[3] = {};
  for_each_position<CrossEntropySums>(call, [&](const Position& position) {
    if (position.label == settings.ignored()) return;
    const std::vector<double> t = valid_target<CrossEntropySums>(call, position, settings);
    const double log_sum = log_sum_exp(position.row);
    const double weight = position.weight * focus(position, log_sum, settings.gamma);
    for (size_t c = 0; c < t.size(); ++c) {
      if (t[c] != 0) sums[CrossEntropySums::kLoss] -= weight * t[c] * (position.row[c] - log_sum);
    }
    sums[CrossEntropySums::kWeight] +=
        position.weight * class_weight<CrossEntropySums>(call, static_cast<size_t>(position.label));
    sums[CrossEntropySums::kValidTargets] += position.weight;
  });
  keep_softmax<CrossEntropySums>(call);
  for (size_t i = 0; i < 3; ++i) {
    if (call.has_output(i)) call.out(i)[0] = sums[i];
  }
}

void cross_entropy_sums_backward(const Call& call) {
  const CrossEntropySettings& settings = call.as<CrossEntropySumsBackward>().settings;
  for_each_position<CrossEntropySumsBackward>(call, [&](const Position& position) {
    const bool is_valid = position.label != settings.ignored();
    const std::vector<double> t = is_valid ? valid_target<CrossEntropySumsBackward>(call, position, settings)
                                           : std::vector<double>(position.row.size());
    double all = 0;
    for (const double share : t) all += share;
    const double log_sum = is_valid ? log_sum_exp(position.row) : 0;
    const double focused = is_valid ? focus_gradient(position, log_sum, settings.gamma) : 0;
    const double scale = call.in(CrossEntropySumsBackward::kDloss)[0] * position.weight * focused;
    for (size_t c = 0; c < t.size(); ++c) {
      const double p = is_valid ? std::exp(position.row[c] - log_sum) : 0;
      call.out(
          CrossEntropySumsBackward::kDlogits)[position.first + static_cast<int64_t>(c) * position.stride] =
          is_valid ? scale * (all * p - t[c]) : 0;
    }
  });
}

void mean_over_targets(const Call& call) {
  const double weight = call.in(MeanOverTargets::kWeight)[0] == 0 ? 1 : call.in(MeanOverTargets::kWeight)[0],
               divisor = call.in(MeanOverTargets::kScale)[0] * weight;
  const double values[3] = {call.in(MeanOverTargets::kSum)[0] / weight, 1 / divisor, divisor};
  for (size_t i = 0; i < 3; ++i) {
    if (call.has_output(i)) call.out(i)[0] = values[i];
  }
}

}  // namespace

void add_loss(Loops& loops) {
  loops[typeid(CrossEntropy)] = cross_entropy;
  loops[typeid(CrossEntropyBackward)] = cross_entropy_backward;
  loops[typeid(TopK)] = top_k;
  loops[typeid(CrossEntropySums)] = cross_entropy_sums;
  loops[typeid(CrossEntropySumsBackward)] = cross_entropy_sums_backward;
  loops[typeid(MeanOverTargets)] = mean_over_targets;
}

}  // namespace trainer::reference
