// SPDX-License-Identifier: Apache-2.0

#include "cuda/batch_norm.h"

#include "core/base/math.h"
#include "cuda/rows.h"

namespace trainer::cuda {
namespace {

/// Chan, Golub, LeVeque 1979: the means and sums of squared deviations of two samples together.
struct MergeMoments {
  __device__ void operator()(Sums& own, const Sums& other) const {
    const float count = own.count + other.count;
    if (other.count == 0) return;
    const float share = other.count / count;
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) {
      const float delta = other.a.v[i] - own.a.v[i];
      own.a.v[i] += delta * share;
      own.b.v[i] += other.b.v[i] + delta * delta * own.count * share;
    }
    own.count = count;
  }
};

/// Means and sums of squared deviations of each part, (parts, channels). A thread's sums are of differences
/// to its first value, which is as good as a mean against cancellation.
template <class T>
__global__ void __launch_bounds__(kThreads)
    measure_moments(RowWalk walk, const T* x, float* part_means, float* part_squares) {
  const Column at = column_of(walk, blockIdx.x);
  Sums own{};
  if (at.row < at.end) {
    const Octet first = load(x + at.row * walk.channels + at.channel, at.left);
    for (int64_t row = at.row + at.step; row < at.end; row += at.step) {
      const Octet value = load(x + row * walk.channels + at.channel, at.left);
#pragma unroll
      for (int i = 0; i < Octet::kSize; ++i) {
        const float difference = value.v[i] - first.v[i];
        own.a.v[i] += difference;
        own.b.v[i] += difference * difference;
      }
    }
    own.count = static_cast<float>((at.end - at.row + at.step - 1) / at.step);
    const float share = 1.0f / own.count;
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) {
      own.b.v[i] -= own.a.v[i] * own.a.v[i] * share;
      own.a.v[i] = first.v[i] + own.a.v[i] * share;
    }
  }
  own = reduce_rows(own, MergeMoments{});
  if (threadIdx.y != 0 || at.left <= 0) return;
  store(own.a, at.left, part_means + blockIdx.y * walk.channels + at.channel);
  store(own.b, at.left, part_squares + blockIdx.y * walk.channels + at.channel);
}

/// y = (x - mean) * scale + shift
struct Affine {
  float *mean, *scale;
};

__global__ void __launch_bounds__(kFinishWide* kFinishHigh, kFewBlocks)
    settle_moments(RowWalk walk, const float* part_means, const float* part_squares, double eps,
                   const float* gamma, float* mean_of, float* variance_of, Affine affine) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kFinishWide + threadIdx.x;
  const bool exists = c < walk.channels;
  auto count_of = [&](int64_t part) {
    const int64_t rest = walk.rows - part * walk.rows_of_block;
    return static_cast<double>(rest < walk.rows_of_block ? rest : walk.rows_of_block);
  };
  const double rows = static_cast<double>(walk.rows);
  const double mean = sum_parts(walk.parts,
                                [&](int64_t part) {
                                  return exists ? count_of(part) * part_means[part * walk.channels + c] : 0.0;
                                }) /
                      rows;
  const double squares = sum_parts(walk.parts, [&](int64_t part) {
    if (!exists) return 0.0;
    const double delta = part_means[part * walk.channels + c] - mean;
    return part_squares[part * walk.channels + c] + count_of(part) * delta * delta;
  });
  if (threadIdx.y != 0 || !exists) return;
  const double variance = squares / rows;
  if (mean_of != nullptr) mean_of[c] = static_cast<float>(mean);
  if (variance_of != nullptr) variance_of[c] = static_cast<float>(variance);
  affine.mean[c] = static_cast<float>(mean);
  affine.scale[c] = static_cast<float>(gamma[c] / math::sqrt(variance + eps));
}

/// Four blocks for each multiprocessor: a little more than what 64 registers hold would cost one of them.
template <class T>
__global__ void __launch_bounds__(kThreads, 4)
    apply_affine(RowWalk walk, bool relu, float ceiling, Affine affine, const float* shift_of, const T* x,
                 const T* residual, T* y, uint8_t* mask) {
  const Column at = column_of(walk, blockIdx.x);
  if (at.left <= 0) return;
  const Octet mean = load(affine.mean + at.channel, at.left),
              scale = load(affine.scale + at.channel, at.left), shift = load(shift_of + at.channel, at.left);
  for (int64_t row = at.row; row < at.end; row += at.step) {
    const int64_t place = row * walk.channels + at.channel;
    Octet value = each([](float v, float m, float s, float b) { return (v - m) * s + b; },
                       load(x + place, at.left), mean, scale, shift);
    if (residual != nullptr) {
      value = each([](float a, float b) { return a + b; }, value, load(residual + place, at.left));
    }
    if (mask != nullptr) {
      unsigned bits = 0;
#pragma unroll
      for (int i = 0; i < Octet::kSize; ++i)
        bits |= (i < at.left && value.v[i] > 0 && value.v[i] < ceiling ? 1u : 0u) << i;
      mask[row * walk.octets() + at.octet] = static_cast<uint8_t>(bits);
    }
    if (relu) value = each([=](float v) { return v < 0 ? 0.0f : v > ceiling ? ceiling : v; }, value);
    store(value, at.left, y + place);
  }
}

}  // namespace

cudaError_t launch_batch_norm(const ImageRows& images, double eps, const BatchNormTensors& t, void* workspace,
                              cudaStream_t stream) {
  const RowWalk walk(images.rows, images.channels);
  auto* part_means = static_cast<float*>(workspace);
  float* part_squares = part_means + walk.parts * walk.channels;
  float* constants = part_squares + walk.parts * walk.channels;
  const Affine affine{constants, constants + walk.channels};
  return with_storage(images.dtype, [=](auto type) {
    using T = decltype(type);
    const auto* x = static_cast<const T*>(t.x);
    cudaError_t status =
        launch(measure_moments<T>, walk.grid(), walk.block(), stream, walk, x, part_means, part_squares);
    if (status != cudaSuccess) return status;
    status = launch(settle_moments, finish_grid(walk.channels), finish_block(), stream, walk, part_means,
                    part_squares, eps, t.gamma, t.mean, t.variance, affine);
    if (status != cudaSuccess) return status;
    return launch(apply_affine<T>, walk.grid(), walk.block(), stream, walk, t.relu, t.ceiling, affine, t.beta,
                  x, static_cast<const T*>(t.residual), static_cast<T*>(t.y), t.mask);
  });
}

int64_t batch_norm_workspace_bytes(const ImageRows& images) {
  const RowWalk walk(images.rows, images.channels);
  constexpr int64_t kConstants = 3;  // of each channel, in the gradient
  return (2 * walk.parts + kConstants) * walk.channels * static_cast<int64_t>(sizeof(float));
}

}  // namespace trainer::cuda
