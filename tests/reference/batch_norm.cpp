// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "core/graph/ops/blend.h"
#include "core/graph/ops/sync_batch_norm.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// Calls visit(index) for every element of a channel of (N, C, H, W).
template <class Visit>
void for_channel(const Shape& shape, int64_t channel, const Visit& visit) {
  const int64_t area = shape[2] * shape[3];
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t i = 0; i < area; ++i) visit((n * shape[1] + channel) * area + i);
  }
}

double count_of(const Shape& shape) {
  return static_cast<double>(numel(shape) / shape[1]);
}

/// A channel's mean and biased variance, or its two sums.
struct Pair {
  double first = 0, second = 0;
};

Pair moments_of(const Call& call, int64_t c) {
  const Shape& shape = call.shape_in(0);
  double sum = 0, squares = 0;
  for_channel(shape, c, [&](int64_t i) { sum += call.in(0)[i]; });
  const double mean = sum / count_of(shape);
  for_channel(shape, c, [&](int64_t i) { squares += std::pow(call.in(0)[i] - mean, 2); });
  return {mean, squares / count_of(shape)};
}

/// Row of a table (R, 2, C).
Pair from_table(const Call& call, size_t input, int64_t rank, int64_t c) {
  const int64_t channels = call.shape_in(input)[2];
  const double* row = call.in(input) + rank * 2 * channels;
  return {row[c], row[channels + c]};
}

/// The moments of all ranks' values: the mean of x^2 less the square of the mean, which double can afford.
Pair moments_of_ranks(const Call& call, int64_t c) {
  const int64_t ranks = call.shape_in(4)[0];
  Pair all;
  double squares = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Pair one = from_table(call, 4, rank, c);
    all.first += one.first / static_cast<double>(ranks);
    squares += (one.second + one.first * one.first) / static_cast<double>(ranks);
  }
  all.second = squares - all.first * all.first;
  return all;
}

/// From the sums of x and of x^2.
Pair moments_of_sums(const Call& call, int64_t c) {
  const long double count = count_of(call.shape_in(0)), mean = call.in(4)[c] / count;
  return {static_cast<double>(mean), static_cast<double>(call.in(5)[c] / count - mean * mean)};
}

Pair given_or_measured(const Call& call, int64_t c) {
  if (call.inputs.size() > 5) return moments_of_sums(call, c);
  return call.inputs.size() > 4 ? moments_of_ranks(call, c) : moments_of(call, c);
}

void batch_norm(const Call& call) {
  const auto& op = call.as<BatchNorm>();
  const Shape& shape = call.shape_in(0);
  for (int64_t c = 0; c < shape[1]; ++c) {
    const auto [mean, variance] = given_or_measured(call, c);
    if (call.has_output(1)) call.out(1)[c] = mean;
    if (call.has_output(2)) call.out(2)[c] = variance;
    for_channel(shape, c, [&, mean = mean, variance = variance](int64_t i) {
      double y = call.in(1)[c] * (call.in(0)[i] - mean) / std::sqrt(variance + op.eps) + call.in(2)[c];
      if (call.has_input(3)) y += call.in(3)[i];
      if (call.has_output(3)) call.out<uint8_t>(3)[i] = passes_clamp(y, op.ceiling);
      call.out(0)[i] = op.relu ? std::clamp(y, 0.0, op.ceiling) : y;
    });
  }
}

/// A process that is alone: the first of the ranks.
void put_in_table(const Call& call, int64_t c, const Pair& own) {
  const int64_t ranks = call.shape_out(0)[0], channels = call.shape_out(0)[2];
  for (int64_t rank = 0; rank < ranks; ++rank) {
    call.out(0)[rank * 2 * channels + c] = rank == 0 ? own.first : 0;
    call.out(0)[(rank * 2 + 1) * channels + c] = rank == 0 ? own.second : 0;
  }
}

void batch_norm_moments(const Call& call) {
  for (int64_t c = 0; c < call.shape_in(0)[1]; ++c) put_in_table(call, c, moments_of(call, c));
}

/// dy, where a mask lets it through, with the second one.
double slope_of(const Call& call, size_t mask, int64_t i) {
  if (call.has_input(mask) && call.in<uint8_t>(mask)[i] == 0) return 0;
  return call.in(0)[i] + (call.has_input(mask + 1) ? call.in(mask + 1)[i] : 0);
}

void batch_norm_sums(const Call& call) {
  const Shape& shape = call.shape_in(1);
  for (int64_t c = 0; c < shape[1]; ++c) {
    const double inverse = 1 / std::sqrt(call.in(3)[c] + call.as<BatchNormSums>().eps);
    Pair sums;
    for_channel(shape, c, [&](int64_t i) {
      const double slope = slope_of(call, 4, i);
      sums.first += slope;
      sums.second += slope * (call.in(1)[i] - call.in(2)[c]) * inverse;
      if (call.has_output(3)) call.out(3)[i] = slope;
    });
    put_in_table(call, c, sums);
    if (call.has_output(1)) call.out(1)[c] = sums.second;
    if (call.has_output(2)) call.out(2)[c] = sums.first;
  }
}

void batch_norm_backward(const Call& call) {
  const Shape& shape = call.shape_in(1);
  const int64_t ranks = call.inputs.size() > 7 ? call.shape_in(7)[0] : 0;
  const double count = count_of(shape) * static_cast<double>(std::max<int64_t>(1, ranks));
  for (int64_t c = 0; c < shape[1]; ++c) {
    const double mean = call.in(3)[c],
                 inverse = 1 / std::sqrt(call.in(4)[c] + call.as<BatchNormBackward>().eps);
    auto normal = [&](int64_t i) { return (call.in(1)[i] - mean) * inverse; };
    double sum = 0, product = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      sum += from_table(call, 7, rank, c).first;
      product += from_table(call, 7, rank, c).second;
    }
    for_channel(shape, c, [&](int64_t i) {
      if (ranks == 0) sum += slope_of(call, 5, i), product += slope_of(call, 5, i) * normal(i);
    });
    if (call.has_output(1)) call.out(1)[c] = product;
    if (call.has_output(2)) call.out(2)[c] = sum;
    // dx may lie where dy is, and so may the residual's gradient: each element of dy is read before either is
    // written.
    for_channel(shape, c, [&](int64_t i) {
      const double g = slope_of(call, 5, i);
      if (call.has_output(3)) call.out(3)[i] = g;
      call.out(0)[i] = call.in(2)[c] * inverse * (g - sum / count - normal(i) * product / count);
    });
  }
}

/// gamma / sqrt(variance + eps)
double inference_scale(const Call& call, size_t gamma, size_t variance, double eps, int64_t c) {
  return call.in(gamma)[c] / std::sqrt(call.in(variance)[c] + eps);
}

void batch_norm_inference(const Call& call) {
  const double eps = call.as<BatchNormInference>().eps;
  for (int64_t c = 0; c < call.shape_in(0)[1]; ++c) {
    const double scale = inference_scale(call, 1, 4, eps, c);
    for_channel(call.shape_in(0), c,
                [&](int64_t i) { call.out(0)[i] = (call.in(0)[i] - call.in(3)[c]) * scale + call.in(2)[c]; });
  }
}

void fold_batch_norm(const Call& call) {
  const double eps = call.as<FoldBatchNorm>().eps;
  const int64_t channels = call.shape_in(0)[0], each = call.count_in(0) / channels;
  for (int64_t c = 0; c < channels; ++c) {
    const double scale = inference_scale(call, 2, 5, eps, c), bias = call.has_input(1) ? call.in(1)[c] : 0;
    for (int64_t i = c * each; i < (c + 1) * each; ++i) call.out(0)[i] = call.in(0)[i] * scale;
    call.out(1)[c] = (bias - call.in(4)[c]) * scale + call.in(3)[c];
  }
}

void blend(const Call& call) {
  const auto& op = call.as<Blend>();
  const bool skip = call.inputs.size() > 2 && call.in(2)[0] != 0;
  for (int64_t i = 0, count = call.count_out(0); i < count; ++i) {
    const double old = call.in(0)[i];
    call.out(0)[i] = skip ? old : old + op.share * (op.scale * call.in(1)[i] - old);
  }
}

}  // namespace

void add_batch_norm(Loops& loops) {
  loops[typeid(BatchNorm)] = batch_norm;
  loops[typeid(BatchNormBackward)] = batch_norm_backward;
  loops[typeid(BatchNormMoments)] = batch_norm_moments;
  loops[typeid(BatchNormSums)] = batch_norm_sums;
  loops[typeid(BatchNormInference)] = batch_norm_inference;
  loops[typeid(FoldBatchNorm)] = fold_batch_norm;
  loops[typeid(Blend)] = blend;
}

}  // namespace trainer::reference
