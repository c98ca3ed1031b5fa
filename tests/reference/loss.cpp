// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/graph/ops/cross_entropy.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// The logits (C) of a sample's position, with what belongs to them.
struct Position {
  std::vector<double> row;
  int64_t sample;
  int32_t label;
  int64_t first, stride;  ///< where the row lies: first + c * stride
  double weight;          ///< the sample's, divided by its number of positions
};

/// Calls body(position) for each position; input `logits` of the call, then labels and weights.
template <class Body>
void for_each_position(const Call& call, size_t logits, const Body& body) {
  const LogitExtents extents(call.shape_in(logits));
  const bool is_picture = call.shape_in(logits).size() == 4;
  Position position{.row = std::vector<double>(static_cast<size_t>(extents.classes)),
                    .stride = is_picture ? extents.positions : 1};
  for (int64_t n = 0; n < extents.samples; ++n) {
    for (int64_t p = 0; p < extents.positions; ++p) {
      position.sample = n;
      position.label = call.in<int32_t>(logits + 1)[n * extents.positions + p];
      position.weight = call.in(logits + 2)[n] / static_cast<double>(extents.positions);
      position.first = n * extents.classes * extents.positions + (is_picture ? p : p * extents.classes);
      for (size_t c = 0; c < position.row.size(); ++c)
        position.row[c] = call.in(logits)[position.first + static_cast<int64_t>(c) * position.stride];
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

/// (1 - s) (m onehot(label) + (1 - m) onehot(other)) + s / C; `logits` as in for_each_position.
std::vector<double> target(const Call& call, size_t logits, const Position& position, double smoothing) {
  std::vector<double> target(position.row.size(), smoothing / static_cast<double>(position.row.size()));
  const bool mixed = call.inputs.size() > logits + 3;
  const double mix_weight = mixed ? call.in(logits + 4)[position.sample] : 1;
  target[static_cast<size_t>(position.label)] += (1 - smoothing) * mix_weight;
  if (mixed) {
    const int32_t other = call.in<int32_t>(logits + 3)[position.sample];
    target[static_cast<size_t>(other)] += (1 - smoothing) * (1 - mix_weight);
  }
  return target;
}

void cross_entropy(const Call& call) {
  double sum = 0;
  for_each_position(call, 0, [&](const Position& position) {
    const std::vector<double> t = target(call, 0, position, call.as<CrossEntropy>().label_smoothing);
    const double log_sum = log_sum_exp(position.row);
    for (size_t c = 0; c < t.size(); ++c) sum -= position.weight * t[c] * (position.row[c] - log_sum);
  });
  call.out(0)[0] = sum;
}

void cross_entropy_backward(const Call& call) {
  for_each_position(call, 1, [&](const Position& position) {
    const std::vector<double> t = target(call, 1, position, call.as<CrossEntropyBackward>().label_smoothing);
    const double log_sum = log_sum_exp(position.row), scale = call.in(0)[0] * position.weight;
    double* dx = call.out(0) + position.first;
    for (size_t c = 0; c < t.size(); ++c)
      dx[static_cast<int64_t>(c) * position.stride] = scale * (std::exp(position.row[c] - log_sum) - t[c]);
  });
}

void top_k(const Call& call) {
  double sum = 0;
  for_each_position(call, 0, [&](const Position& position) {
    const auto label = static_cast<size_t>(position.label);
    const double own = position.row[label];
    int64_t rank = 0;
    for (size_t c = 0; c < position.row.size(); ++c)
      rank += position.row[c] > own || (position.row[c] == own && c < label);
    if (rank < call.as<TopK>().k && !std::isnan(own)) sum += position.weight;
  });
  call.out(0)[0] = sum;
}

}  // namespace

void add_loss(Loops& loops) {
  loops[typeid(CrossEntropy)] = cross_entropy;
  loops[typeid(CrossEntropyBackward)] = cross_entropy_backward;
  loops[typeid(TopK)] = top_k;
}

}  // namespace trainer::reference
