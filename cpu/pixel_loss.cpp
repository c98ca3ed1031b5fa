// SPDX-License-Identifier: Apache-2.0
#include "cpu/pixel_loss.h"

#include <cmath>

#include "core/base/math.h"
#include "core/graph/ops/cross_entropy.h"
#include "cpu/loss_rows.h"
#include "cpu/parallel.h"

namespace trainer::cpu {
namespace {

/// Numbering of tiles over all samples.
struct Tiling {
  explicit Tiling(const Shape& logits)
      : sizes(logits),
        per_sample((sizes.positions + kTilePixels - 1) / kTilePixels),
        tiles(sizes.samples * per_sample) {}
  int64_t sample(int64_t tile) const { return tile / per_sample; }
  int64_t first_pixel(int64_t tile) const { return tile % per_sample * kTilePixels; }
  int64_t first_logit(int64_t tile) const {
    return sample(tile) * sizes.classes * sizes.positions + first_pixel(tile);
  }
  int64_t first_label(int64_t tile) const { return sample(tile) * sizes.positions + first_pixel(tile); }
  Tile at(int64_t tile, const float* logits) const {
    return {logits + first_logit(tile), sizes.classes, sizes.positions,
            std::min(kTilePixels, sizes.positions - first_pixel(tile))};
  }

  LogitSizes sizes;
  int64_t per_sample, tiles;
};

}  // namespace

TRAINER_MULTIVERSION void softmax_sums(const Tile& tile, TileFloats& largest, TileFloats& sum) {
  for (int64_t i = 0; i < tile.count; ++i) largest[i] = tile.x[i], sum[i] = 0;
  for (int64_t c = 1; c < tile.classes; ++c) {
    const float* x = tile.x + c * tile.stride;
#pragma omp simd
    for (int64_t i = 0; i < tile.count; ++i)
      largest[i] = x[i] > largest[i] || x[i] != x[i] ? x[i] : largest[i];
  }
  for (int64_t c = 0; c < tile.classes; ++c) {
    const float* x = tile.x + c * tile.stride;
#pragma omp simd
    for (int64_t i = 0; i < tile.count; ++i) sum[i] += math::exp(x[i] - largest[i]);
  }
}

namespace {

/// Sum of the pixels' losses, in double.
double tile_loss(const Tile& tile, const int32_t* label, const TileFloats& largest, const TileFloats& sum,
                 double smoothing) {
  double loss = 0;
  for (int64_t i = 0; i < tile.count; ++i) {
    loss += std::log(static_cast<double>(sum[i])) + largest[i] -
            (1 - smoothing) * tile.x[label[i] * tile.stride + i];
  }
  if (smoothing == 0) return loss;
  double all = 0;
  for (int64_t c = 0; c < tile.classes; ++c) {
    for (int64_t i = 0; i < tile.count; ++i) all += tile.x[c * tile.stride + i];
  }
  return loss - smoothing * all / static_cast<double>(tile.classes);
}

/// From the pixels' largest logits and sums of exp. dx may be the tile's own memory.
TRAINER_MULTIVERSION void tile_gradient(const Tile& tile, const int32_t* label, const float* largest,
                                        const float* exp_sum, float scale, float smoothing, float* dx) {
  TileFloats inverse;
  const float even = smoothing / static_cast<float>(tile.classes);
  for (int64_t i = 0; i < tile.count; ++i) inverse[i] = 1.0f / exp_sum[i];
  for (int64_t c = 0; c < tile.classes; ++c) {
    const float* x = tile.x + c * tile.stride;
    float* out = dx + c * tile.stride;
#pragma omp simd
    for (int64_t i = 0; i < tile.count; ++i)
      out[i] = scale * (math::exp(x[i] - largest[i]) * inverse[i] - even);
  }
  for (int64_t i = 0; i < tile.count; ++i) dx[label[i] * tile.stride + i] -= scale * (1.0f - smoothing);
}

/// Pixels with their label among the k largest; of equal logits the lower class comes first.
TRAINER_MULTIVERSION int64_t tile_hits(const Tile& tile, const int32_t* label, int64_t k, int32_t ignored) {
  TileFloats own;
  std::array<int32_t, kTilePixels> before{};
  for (int64_t i = 0; i < tile.count; ++i)
    own[i] = label[i] == ignored ? NAN : tile.x[label[i] * tile.stride + i];
  for (int32_t c = 0; c < tile.classes; ++c) {
    const float* x = tile.x + c * tile.stride;
#pragma omp simd
    for (int64_t i = 0; i < tile.count; ++i) before[i] += x[i] > own[i] || (x[i] == own[i] && c < label[i]);
  }
  int64_t hits = 0;
  for (int64_t i = 0; i < tile.count; ++i) hits += before[i] < k && own[i] == own[i];
  return hits;
}

/// Adds up sum(tile, whether its sample counts) of every tile, weighted and in order, so that the number of
/// threads does not matter. The sum of a tile that does not count is 0.
template <class Sum>
double weighted_sum(const Tiling& tiling, const float* weights, double* sums, const Sum& sum) {
  parallel_rows(tiling.tiles, kTilePixels * tiling.sizes.classes, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) sums[t] = sum(t, weights[tiling.sample(t)] != 0);
  });
  double all = 0;
  for (int64_t t = 0; t < tiling.tiles; ++t) all += weights[tiling.sample(t)] * sums[t];
  return all / static_cast<double>(tiling.sizes.positions);
}

}  // namespace

int64_t pixel_workspace_bytes(const Shape& logits) {
  return Tiling(logits).tiles * static_cast<int64_t>(sizeof(double));
}

std::unique_ptr<Kernel> compile_pixel_cross_entropy(const OpContext& context, const Slots& slots) {
  const double smoothing = static_cast<const CrossEntropy&>(context.op).label_smoothing;
  return kernel([=, tiling = Tiling(context.inputs[CrossEntropy::kLogits].shape),
                 x = slots.inputs[CrossEntropy::kLogits], label = slots.inputs[CrossEntropy::kLabels],
                 weight = slots.inputs[CrossEntropy::kWeights], sums = slots.workspace,
                 loss = slots.outputs[CrossEntropy::kLoss],
                 kept = SoftmaxSlots::of<CrossEntropy>(slots.outputs)] {
    const auto sum = [=](int64_t t, bool counts) {
      const Tile tile = tiling.at(t, at<const float>(x));
      TileFloats largest, exp_sum;
      softmax_sums(tile, largest, exp_sum);
      for (int64_t i = 0; i < tile.count; ++i) kept.put(tiling.first_label(t) + i, {largest[i], exp_sum[i]});
      const int32_t* labels = at<const int32_t>(label) + tiling.first_label(t);
      return counts ? tile_loss(tile, labels, largest, exp_sum, smoothing) : 0.0;
    };
    *at<float>(loss) =
        static_cast<float>(weighted_sum(tiling, at<const float>(weight), at<double>(sums), sum));
  });
}

std::unique_ptr<Kernel> compile_pixel_cross_entropy_backward(const OpContext& context, const Slots& slots) {
  const auto smoothing =
      static_cast<float>(static_cast<const CrossEntropyBackward&>(context.op).label_smoothing);
  return kernel([=, tiling = Tiling(context.inputs[CrossEntropyBackward::kLogits].shape),
                 dloss = slots.inputs[CrossEntropyBackward::kDloss],
                 x = slots.inputs[CrossEntropyBackward::kLogits],
                 label = slots.inputs[CrossEntropyBackward::kLabels],
                 weight = slots.inputs[CrossEntropyBackward::kWeights],
                 kept = SoftmaxSlots::of<CrossEntropyBackward>(slots.inputs),
                 dx = slots.outputs[CrossEntropyBackward::kDlogits]] {
    const float scale = *at<const float>(dloss) / static_cast<float>(tiling.sizes.positions);
    parallel_rows(tiling.tiles, kTilePixels * tiling.sizes.classes, [=](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t first = tiling.first_label(t);
        tile_gradient(tiling.at(t, at<const float>(x)), at<const int32_t>(label) + first,
                      at<const float>(kept.largest) + first, at<const float>(kept.sum) + first,
                      scale * at<const float>(weight)[tiling.sample(t)], smoothing,
                      at<float>(dx) + tiling.first_logit(t));
      }
    });
  });
}

std::unique_ptr<Kernel> compile_pixel_top_k(const OpContext& context, const Slots& slots) {
  const auto& op = static_cast<const TopK&>(context.op);
  return kernel([=, k = op.k, ignored = op.ignored, tiling = Tiling(context.inputs[TopK::kLogits].shape),
                 x = slots.inputs[TopK::kLogits], label = slots.inputs[TopK::kLabels],
                 weight = slots.inputs[TopK::kWeights], sums = slots.workspace,
                 correct = slots.outputs[TopK::kHits]] {
    const auto hits = [=](int64_t t, bool counts) {
      const int32_t* labels = at<const int32_t>(label) + tiling.first_label(t);
      return counts ? static_cast<double>(tile_hits(tiling.at(t, at<const float>(x)), labels, k, ignored))
                    : 0.0;
    };
    *at<float>(correct) =
        static_cast<float>(weighted_sum(tiling, at<const float>(weight), at<double>(sums), hits));
  });
}

}  // namespace trainer::cpu
