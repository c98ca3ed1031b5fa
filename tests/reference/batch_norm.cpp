// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "core/graph/ops/lerp.h"
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
  const Shape& shape = call.shape_in(BatchNorm::kX);
  double sum = 0, squares = 0;
  for_channel(shape, c, [&](int64_t i) { sum += call.in(BatchNorm::kX)[i]; });
  const double mean = sum / count_of(shape);
  for_channel(shape, c, [&](int64_t i) { squares += std::pow(call.in(BatchNorm::kX)[i] - mean, 2); });
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
  const int64_t ranks = call.shape_in(BatchNorm::kTable)[0];
  Pair all;
  double squares = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Pair one = from_table(call, BatchNorm::kTable, rank, c);
    all.first += one.first / static_cast<double>(ranks);
    squares += (one.second + one.first * one.first) / static_cast<double>(ranks);
  }
  all.second = squares - all.first * all.first;
  return all;
}

/// From the sums of x and of x^2.
Pair moments_of_sums(const Call& call, int64_t c) {
  const long double count = count_of(call.shape_in(BatchNorm::kX)),
                    mean = call.in(BatchNorm::kSums)[c] / count;
  return {static_cast<double>(mean),
          static_cast<double>(call.in(BatchNorm::kSquares)[c] / count - mean * mean)};
}

Pair given_or_measured(const Call& call, int64_t c) {
  if (call.has_input(BatchNorm::kSums)) return moments_of_sums(call, c);
  return call.has_input(BatchNorm::kTable) ? moments_of_ranks(call, c) : moments_of(call, c);
}

void batch_norm(const Call& call) {
  const auto& op = call.as<BatchNorm>();
  const Shape& shape = call.shape_in(BatchNorm::kX);
  for (int64_t c = 0; c < shape[1]; ++c) {
    const auto [mean, variance] = given_or_measured(call, c);
    if (call.has_output(BatchNorm::kMean)) call.out(BatchNorm::kMean)[c] = mean;
    if (call.has_output(BatchNorm::kVariance)) call.out(BatchNorm::kVariance)[c] = variance;
    for_channel(shape, c, [&, mean = mean, variance = variance](int64_t i) {
      double y =
          call.in(BatchNorm::kGamma)[c] * (call.in(BatchNorm::kX)[i] - mean) / std::sqrt(variance + op.eps) +
          call.in(BatchNorm::kBeta)[c];
      if (call.has_input(BatchNorm::kResidual)) y += call.in(BatchNorm::kResidual)[i];
      if (call.has_output(BatchNorm::kMask))
        call.out<uint8_t>(BatchNorm::kMask)[i] = passes_clamp(y, op.ceiling);
      call.out(BatchNorm::kY)[i] = op.relu ? std::clamp(y, 0.0, op.ceiling) : y;
    });
  }
}

/// A process that is alone: the first of the ranks.
void put_in_table(const Call& call, int64_t c, const Pair& own) {
  const int64_t ranks = call.shape_out(BatchNormMoments::kTable)[0],
                channels = call.shape_out(BatchNormMoments::kTable)[2];
  for (int64_t rank = 0; rank < ranks; ++rank) {
    call.out(BatchNormMoments::kTable)[rank * 2 * channels + c] = rank == 0 ? own.first : 0;
    call.out(BatchNormMoments::kTable)[(rank * 2 + 1) * channels + c] = rank == 0 ? own.second : 0;
  }
}

void batch_norm_moments(const Call& call) {
  for (int64_t c = 0; c < call.shape_in(BatchNormMoments::kX)[1]; ++c)
    put_in_table(call, c, moments_of(call, c));
}

/// dy, if a mask lets it through, with the second one.
template <class Op>
double slope_of(const Call& call, int64_t i) {
  if (call.has_input(Op::kMask) && call.in<uint8_t>(Op::kMask)[i] == 0) return 0;
  return call.in(Op::kDy)[i] + (call.has_input(Op::kOtherDy) ? call.in(Op::kOtherDy)[i] : 0);
}

void batch_norm_sums(const Call& call) {
  const Shape& shape = call.shape_in(BatchNormSums::kX);
  for (int64_t c = 0; c < shape[1]; ++c) {
    const double inverse = 1 / std::sqrt(call.in(BatchNormSums::kVariance)[c] + call.as<BatchNormSums>().eps);
    Pair sums;
    for_channel(shape, c, [&](int64_t i) {
      const double slope = slope_of<BatchNormSums>(call, i);
      sums.first += slope;
      sums.second += slope * (call.in(BatchNormSums::kX)[i] - call.in(BatchNormSums::kMean)[c]) * inverse;
      if (call.has_output(BatchNormSums::kDresidual)) call.out(BatchNormSums::kDresidual)[i] = slope;
    });
    put_in_table(call, c, sums);
    if (call.has_output(BatchNormSums::kDgamma)) call.out(BatchNormSums::kDgamma)[c] = sums.second;
    if (call.has_output(BatchNormSums::kDbeta)) call.out(BatchNormSums::kDbeta)[c] = sums.first;
  }
}

void batch_norm_backward(const Call& call) {
  const Shape& shape = call.shape_in(BatchNormBackward::kX);
  const int64_t ranks =
      call.has_input(BatchNormBackward::kTable) ? call.shape_in(BatchNormBackward::kTable)[0] : 0;
  const double count = count_of(shape) * static_cast<double>(std::max<int64_t>(1, ranks));
  for (int64_t c = 0; c < shape[1]; ++c) {
    const double mean = call.in(BatchNormBackward::kMean)[c],
                 inverse = 1 / std::sqrt(call.in(BatchNormBackward::kVariance)[c] +
                                         call.as<BatchNormBackward>().eps);
    auto normal = [&](int64_t i) { return (call.in(BatchNormBackward::kX)[i] - mean) * inverse; };
    double sum = 0, product = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      sum += from_table(call, BatchNormBackward::kTable, rank, c).first;
      product += from_table(call, BatchNormBackward::kTable, rank, c).second;
    }
    for_channel(shape, c, [&](int64_t i) {
      if (ranks == 0)
        sum += slope_of<BatchNormBackward>(call, i),
            product += slope_of<BatchNormBackward>(call, i) * normal(i);
    });
    if (call.has_output(BatchNormBackward::kDgamma)) call.out(BatchNormBackward::kDgamma)[c] = product;
    if (call.has_output(BatchNormBackward::kDbeta)) call.out(BatchNormBackward::kDbeta)[c] = sum;
    // dx may share dy's memory, and so may the residual's gradient: each element of dy is read before either
    // is written.
    for_channel(shape, c, [&](int64_t i) {
      const double g = slope_of<BatchNormBackward>(call, i);
      if (call.has_output(BatchNormBackward::kDresidual)) call.out(BatchNormBackward::kDresidual)[i] = g;
      call.out(BatchNormBackward::kDx)[i] =
          call.in(BatchNormBackward::kGamma)[c] * inverse * (g - sum / count - normal(i) * product / count);
    });
  }
}

/// gamma / sqrt(variance + eps)
template <class Op>
double inference_scale(const Call& call, double eps, int64_t c) {
  return call.in(Op::kGamma)[c] / std::sqrt(call.in(Op::kVariance)[c] + eps);
}

void batch_norm_inference(const Call& call) {
  const double eps = call.as<BatchNormInference>().eps;
  for (int64_t c = 0; c < call.shape_in(BatchNormInference::kX)[1]; ++c) {
    const double scale = inference_scale<BatchNormInference>(call, eps, c);
    for_channel(call.shape_in(BatchNormInference::kX), c, [&](int64_t i) {
      call.out(BatchNormInference::kY)[i] =
          (call.in(BatchNormInference::kX)[i] - call.in(BatchNormInference::kMean)[c]) * scale +
          call.in(BatchNormInference::kBeta)[c];
    });
  }
}

void fold_batch_norm(const Call& call) {
  const double eps = call.as<FoldBatchNorm>().eps;
  const int64_t channels = call.shape_in(FoldBatchNorm::kWeight)[0],
                each = call.count_in(FoldBatchNorm::kWeight) / channels;
  for (int64_t c = 0; c < channels; ++c) {
    const double scale = inference_scale<FoldBatchNorm>(call, eps, c),
                 bias = call.has_input(FoldBatchNorm::kBias) ? call.in(FoldBatchNorm::kBias)[c] : 0;
    for (int64_t i = c * each; call.has_output(FoldBatchNorm::kFoldedWeight) && i < (c + 1) * each; ++i)
      call.out(FoldBatchNorm::kFoldedWeight)[i] = call.in(FoldBatchNorm::kWeight)[i] * scale;
    if (call.has_output(FoldBatchNorm::kFoldedBias))
      call.out(FoldBatchNorm::kFoldedBias)[c] =
          (bias - call.in(FoldBatchNorm::kMean)[c]) * scale + call.in(FoldBatchNorm::kBeta)[c];
  }
}

void lerp(const Call& call) {
  const auto& op = call.as<Lerp>();
  const bool skip = call.has_input(Lerp::kSkip) && call.in(Lerp::kSkip)[0] != 0;
  for (int64_t i = 0, count = call.count_out(Lerp::kY); i < count; ++i) {
    const double old = call.in(Lerp::kOld)[i];
    call.out(Lerp::kY)[i] = skip ? old : old + op.share * (op.scale * call.in(Lerp::kFresh)[i] - old);
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
  loops[typeid(Lerp)] = lerp;
}

}  // namespace trainer::reference
