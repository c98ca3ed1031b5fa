// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/graph/ops/cross_entropy.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// The logits (C) of each sample's pixel, with what belongs to them.
struct Pixel {
  std::vector<double> row;
  int64_t sample;
  int32_t label;
  int64_t first, stride;  ///< where the row lies: first + c * stride
  double weight;          ///< the sample's, divided by its number of pixels
};

/// Calls body(pixel) for each pixel; input `logits` of the call, then labels and weights.
template <class Body>
void for_each_pixel(const Call& call, size_t logits, const Body& body) {
  const LogitExtents extents(call.shape_in(logits));
  Pixel pixel{.row = std::vector<double>(static_cast<size_t>(extents.classes)), .stride = extents.pixels};
  for (int64_t n = 0; n < extents.samples; ++n) {
    for (int64_t p = 0; p < extents.pixels; ++p) {
      pixel.sample = n;
      pixel.label = call.in<int32_t>(logits + 1)[n * extents.pixels + p];
      pixel.weight = call.in(logits + 2)[n] / static_cast<double>(extents.pixels);
      pixel.first = n * extents.classes * extents.pixels + p;
      for (size_t c = 0; c < pixel.row.size(); ++c)
        pixel.row[c] = call.in(logits)[pixel.first + static_cast<int64_t>(c) * pixel.stride];
      body(pixel);
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

/// (1 - s) (m onehot(label) + (1 - m) onehot(other)) + s / C; `logits` as in for_each_pixel.
std::vector<double> target(const Call& call, size_t logits, const Pixel& pixel, double smoothing) {
  std::vector<double> target(pixel.row.size(), smoothing / static_cast<double>(pixel.row.size()));
  const bool mixed = call.inputs.size() > logits + 3;
  const double mix_weight = mixed ? call.in(logits + 4)[pixel.sample] : 1;
  target[static_cast<size_t>(pixel.label)] += (1 - smoothing) * mix_weight;
  if (mixed) {
    const int32_t other = call.in<int32_t>(logits + 3)[pixel.sample];
    target[static_cast<size_t>(other)] += (1 - smoothing) * (1 - mix_weight);
  }
  return target;
}

void cross_entropy(const Call& call) {
  double sum = 0;
  for_each_pixel(call, 0, [&](const Pixel& pixel) {
    const std::vector<double> t = target(call, 0, pixel, call.as<CrossEntropy>().label_smoothing);
    const double log_sum = log_sum_exp(pixel.row);
    for (size_t c = 0; c < t.size(); ++c) sum -= pixel.weight * t[c] * (pixel.row[c] - log_sum);
  });
  call.out(0)[0] = sum;
}

void cross_entropy_backward(const Call& call) {
  for_each_pixel(call, 1, [&](const Pixel& pixel) {
    const std::vector<double> t = target(call, 1, pixel, call.as<CrossEntropyBackward>().label_smoothing);
    const double log_sum = log_sum_exp(pixel.row), scale = call.in(0)[0] * pixel.weight;
    double* dx = call.out(0) + pixel.first;
    for (size_t c = 0; c < t.size(); ++c)
      dx[static_cast<int64_t>(c) * pixel.stride] = scale * (std::exp(pixel.row[c] - log_sum) - t[c]);
  });
}

void top_k(const Call& call) {
  double sum = 0;
  for_each_pixel(call, 0, [&](const Pixel& pixel) {
    const auto label = static_cast<size_t>(pixel.label);
    const double own = pixel.row[label];
    int64_t rank = 0;
    for (size_t c = 0; c < pixel.row.size(); ++c)
      rank += pixel.row[c] > own || (pixel.row[c] == own && c < label);
    if (rank < call.as<TopK>().k && !std::isnan(own)) sum += pixel.weight;
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
