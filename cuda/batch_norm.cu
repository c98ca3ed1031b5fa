// SPDX-License-Identifier: Apache-2.0

#include "cuda/batch_norm.h"

#include "core/base/math.h"
#include "core/graph/ops/batch_norm.h"
#include "cuda/last_block.h"

namespace trainer::cuda {
namespace {

constexpr int64_t kConstants = 3;  // of each channel: two here, three in the gradient

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

/// y = (x - mean) * scale + shift
struct Affine {
  float *mean, *scale;
};

/// Destinations of a channel's moments, any of which may be nullptr, and the coefficients that normalise x.
struct Settled {
  float *mean, *variance;
  const float* gamma;
  double eps;
  Affine affine;

  __device__ void put_moments(int64_t c, double m, double v) const {
    if (mean != nullptr) mean[c] = static_cast<float>(m);
    if (variance != nullptr) variance[c] = static_cast<float>(v);
  }
  __device__ float scale(int64_t c, double v) const {
    return static_cast<float>(gamma[c] / math::sqrt(v + eps));
  }
  __device__ void put(int64_t c, double m, double v) const {
    put_moments(c, m, v);
    affine.mean[c] = static_cast<float>(m);
    affine.scale[c] = scale(c, v);
  }
};

/// The sums that determine a channel's moments; either may be nullptr.
struct PutSums {
  float *sums, *squares;
  double rows;
  __device__ void put(int64_t c, double m, double v) const {
    if (sums != nullptr) sums[c] = static_cast<float>(rows * m);
    if (squares != nullptr) squares[c] = static_cast<float>(rows * (v + m * m));
  }
};

struct Moments {
  double mean, variance;
};

/// All ranks' values together.
__device__ inline Moments moments_of_ranks(const GivenMoments& given, int64_t channels, int64_t c) {
  const double share = 1 / static_cast<double>(given.ranks);
  Moments all{};
  for (int64_t rank = 0; rank < given.ranks; ++rank) all.mean += share * given.table[2 * rank * channels + c];
  for (int64_t rank = 0; rank < given.ranks; ++rank) {
    const double delta = given.table[2 * rank * channels + c] - all.mean;
    all.variance += share * (given.table[(2 * rank + 1) * channels + c] + delta * delta);
  }
  return all;
}

/// variance = E[x^2] - E[x]^2. Roundings of d additions in f32 err to both sides, together by about sqrt(d) *
/// 2^-24 of a sum. So the variance's relative error is about sqrt(d) * 2^-23 * (1 + mean^2 / variance).
/// Engines add up tiles, 2^15 at most (of 256 images in ResNet-50's first layer): with a mean of four
/// standard deviations 11 bits are left. f16 stores that many of x and y, so these sums are used for low
/// types only. A result below zero becomes zero; NaN stays.
__device__ inline Moments moments_of_sums(const GivenMoments& given, int64_t rows, int64_t c) {
  const double count = static_cast<double>(rows), mean = given.sums[c] / count;
  const double variance = given.squares[c] / count - mean * mean;
  return {mean, variance < 0 ? 0 * variance : variance};  // -infinity becomes NaN
}

/// Means and sums of squared deviations of each part, (parts, channels). A thread's sums are of differences
/// to its first value, which avoids cancellation as well as a mean would. The last block writes a column's
/// moments to their destination. In double the sums of x and of x^2 are as good as differences of means that
/// f32 holds.
template <class Rows, class Target>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    measure_moments(RowSweep sweep, const typename Rows::T* x, Parts parts, Target target) {
  using T = typename Rows::T;
  wait_for_previous_kernels();
  const Column at = column_of(sweep, blockIdx.x);
  Sums own{};
  if (at.row < at.end) {
    const auto stored_at = [&](int64_t row) {
      return Rows::fetch(x + row * sweep.channels + at.channel, at.left);
    };
    const Octet first = to_floats(stored_at(at.row));
    Column others = at;
    others.row += at.step;
    for_rows<T>(others, stored_at, [&](int64_t, const Stored<T>& stored) {
      const Octet value = to_floats(stored);
#pragma unroll
      for (int i = 0; i < Octet::kSize; ++i) {
        const float difference = value.v[i] - first.v[i];
        own.a.v[i] += difference;
        own.b.v[i] += difference * difference;
      }
    });
    own.count = static_cast<float>((at.end - at.row + at.step - 1) / at.step);
    const float share = 1.0f / own.count;
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) {
      own.b.v[i] -= own.a.v[i] * own.a.v[i] * share;
      own.a.v[i] = first.v[i] + own.a.v[i] * share;
    }
  }
  own = reduce_rows(own, MergeMoments{});
  store_part(sweep, at, own, parts);
  const auto sums_of_part = [&](int64_t part, int64_t place) {
    const int64_t rest = sweep.rows - part * sweep.rows_of_block;
    const double count = static_cast<double>(rest < sweep.rows_of_block ? rest : sweep.rows_of_block);
    const double mean = parts.a[place];
    return Totals{count * mean, parts.b[place] + count * mean * mean};
  };
  settle_column(sweep, parts, sums_of_part, [&](int64_t c, const Totals& sums) {
    const double rows = static_cast<double>(sweep.rows), mean = sums.a / rows;
    const double variance = sums.b / rows - mean * mean;
    target.put(c, mean, variance < 0 ? 0 * variance : variance);
  });
}

/// Computes the constants of a block's channels, at most kThreads, one thread each; the first block of a
/// channel outputs its moments.
__device__ inline void settle_block(const RowSweep& sweep, const GivenMoments& given, const Settled& settled,
                                    float* means, float* scales) {
  const int place = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x * Octet::kSize + place;
  if (place >= static_cast<int>(blockDim.x) * Octet::kSize || c >= sweep.channels) return;
  const Moments moments = given.sums != nullptr ? moments_of_sums(given, sweep.rows, c)
                                                : moments_of_ranks(given, sweep.channels, c);
  means[place] = static_cast<float>(moments.mean);
  scales[place] = settled.scale(c, moments.variance);
  if (blockIdx.y == 0) settled.put_moments(c, moments.mean, moments.variance);
}

/// The constants are computed here if moments are given; otherwise they were before.
template <class Rows, class T = typename Rows::T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    apply_affine(RowSweep sweep, bool relu, float ceiling, GivenMoments given, Settled settled,
                 const float* shift_of, const T* x, const T* residual, T* y, uint8_t* mask) {
  wait_for_previous_kernels();
  TRAINER_SHARED(float, here, [2][kThreads]);
  const bool is_here = given.exist();
  if (is_here) settle_block(sweep, given, settled, here[0], here[1]);
  __syncthreads();
  const Column at = column_from_end(sweep, blockIdx.x);
  if (at.left <= 0) return;
  const int64_t first = is_here ? threadIdx.x * Octet::kSize : at.channel;
  const Octet mean = load((is_here ? here[0] : settled.affine.mean) + first, at.left),
              scale = load((is_here ? here[1] : settled.affine.scale) + first, at.left),
              shift = load(shift_of + at.channel, at.left);
  struct Fetched {
    Stored<T> x, residual;
  };
  const auto fetch_row = [&](int64_t row) {
    const int64_t place = row * sweep.channels + at.channel;
    Fetched fetched{Rows::fetch(x + place, at.left), {}};
    if (residual != nullptr) fetched.residual = Rows::fetch(residual + place, at.left);
    return fetched;
  };
  for_rows<T, kBytesOfTwo<Rows>>(at, fetch_row, [&](int64_t row, const Fetched& fetched) {
    Octet value = each([](float v, float m, float s, float b) { return (v - m) * s + b; },
                       to_floats(fetched.x), mean, scale, shift);
    if (residual != nullptr)
      value = each([](float a, float b) { return a + b; }, value, to_floats(fetched.residual));
    if (mask != nullptr) {
      unsigned bits = 0;
#pragma unroll
      for (int i = 0; i < Octet::kSize; ++i)
        bits |= (i < at.left && passes_clamp(value.v[i], ceiling) ? 1u : 0u) << i;
      mask[row * sweep.octets() + at.octet] = static_cast<uint8_t>(bits);
    }
    if (relu) value = each([=](float v) { return v < 0 ? 0.0f : v > ceiling ? ceiling : v; }, value);
    Rows::store(value, at.left, y + row * sweep.channels + at.channel);
  });
}

/// Reads all of x.
template <class Target>
cudaError_t measure(const ImageRows& images, const void* x, const BlockSums& memory, const Target& target,
                    cudaStream_t stream) {
  const RowSweep sweep(images.rows, images.channels);
  return with_octets(images.dtype, has_whole_octets(images.channels, x), [=](auto rows) {
    using Rows = decltype(rows);
    return launch(measure_moments<Rows, Target>, sweep.grid(), sweep.block(), stream, sweep,
                  static_cast<const typename Rows::T*>(x), Parts(sweep, memory.workspace, memory.counters),
                  target);
  });
}

}  // namespace

cudaError_t launch_batch_norm(const ImageRows& images, double eps, const BatchNormTensors& t,
                              const BlockSums& memory, cudaStream_t stream) {
  const RowSweep sweep(images.rows, images.channels);
  Settled settled{.mean = t.mean, .variance = t.variance, .gamma = t.gamma, .eps = eps, .affine = {}};
  if (!t.given.exist()) {
    float* constants = Parts(sweep, memory.workspace, memory.counters).behind(sweep);
    settled.affine = {constants, constants + images.channels};
    const cudaError_t status = measure(images, t.x, memory, settled, stream);
    if (status != cudaSuccess) return status;
  }
  const bool whole = has_whole_octets(images.channels, t.x, t.residual, t.y);
  return with_octets(images.dtype, whole, [=](auto rows) {
    using Rows = decltype(rows);
    using T = typename Rows::T;
    return launch(apply_affine<Rows>, sweep.grid(), sweep.block(), stream, sweep, t.relu, t.ceiling, t.given,
                  settled, t.beta, static_cast<const T*>(t.x), static_cast<const T*>(t.residual),
                  static_cast<T*>(t.y), t.mask);
  });
}

cudaError_t launch_channel_sums(const ImageRows& images, const void* x, float* sums, float* squares,
                                const BlockSums& memory, cudaStream_t stream) {
  return measure(images, x, memory, PutSums{sums, squares, static_cast<double>(images.rows)}, stream);
}

int64_t batch_norm_workspace_bytes(const ImageRows& images) {
  const RowSweep sweep(images.rows, images.channels);
  return Parts::bytes(sweep) + kConstants * sweep.channels * static_cast<int64_t>(sizeof(float));
}

}  // namespace trainer::cuda
