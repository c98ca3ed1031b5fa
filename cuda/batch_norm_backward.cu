// SPDX-License-Identifier: Apache-2.0
#include "core/base/math.h"
#include "cuda/batch_norm.h"
#include "cuda/last_block.h"

namespace trainer::cuda {
namespace {

/// The sum of both gradients if the mask has a bit, 0 elsewhere; other and mask may be nullptr.
template <class T>
struct Slopes {
  const T *dy, *other;
  const uint8_t* mask;
};

/// One row's part of a thread, as stored.
template <class T>
struct Fetched {
  Stored<T> dy, other, x;
  unsigned mask;
};

template <class Rows, class T = typename Rows::T>
__device__ inline Fetched<T> fetch_row(const RowSweep& sweep, const Column& at, const Slopes<T>& slopes,
                                       const T* x, int64_t row) {
  const int64_t place = row * sweep.channels + at.channel;
  Fetched<T> fetched{Rows::fetch(slopes.dy + place, at.left), {}, Rows::fetch(x + place, at.left), 0};
  if (slopes.other != nullptr) fetched.other = Rows::fetch(slopes.other + place, at.left);
  if (slopes.mask != nullptr) fetched.mask = slopes.mask[row * sweep.octets() + at.octet];
  return fetched;
}

template <class T>
__device__ inline Octet slope_of(const Slopes<T>& slopes, const Fetched<T>& fetched) {
  Octet slope = to_floats(fetched.dy);
  if (slopes.other != nullptr)
    slope = each([](float a, float b) { return a + b; }, slope, to_floats(fetched.other));
  if (slopes.mask != nullptr) {
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) slope.v[i] = (fetched.mask >> i & 1) != 0 ? slope.v[i] : 0.0f;
  }
  return slope;
}

/// Of each of three tensors; more of them need more registers than there are.
constexpr int kBytesInFlight = 32;

/// dx = scale * slope + pull * (x - mean) + shift
struct Affine {
  const float* mean;
  float *scale, *pull, *shift;
};

/// Constants from the sums of the slope and of slope * (x - mean) over `rows`.
struct Settlement {
  double rows, eps;
  const float *gamma, *variance;
  float *dgamma, *dbeta;
  Affine affine;

  __device__ void operator()(int64_t c, const Totals& sums) const {
    const double inverse = 1 / math::sqrt(variance[c] + eps), scale = gamma[c] * inverse;
    if (dgamma != nullptr) dgamma[c] = static_cast<float>(sums.b * inverse);
    if (dbeta != nullptr) dbeta[c] = static_cast<float>(sums.a);
    affine.scale[c] = static_cast<float>(scale);
    affine.pull[c] = static_cast<float>(-scale * inverse * inverse * sums.b / rows);
    affine.shift[c] = static_cast<float>(-scale * sums.a / rows);
  }
};

/// Sums of the slope and of slope * (x - mean) of each part; the last block of a column adds them up and
/// derives the constants. With `masked` the slope is written there: it is the residual's gradient. Not
/// __restrict__: masked may be dy.
template <class Rows, class T = typename Rows::T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    measure_slopes(RowSweep sweep, Slopes<T> slopes, const T* x, T* masked, Parts parts, Settlement settle) {
  wait_for_previous_kernels();
  const Column at = column_of(sweep, blockIdx.x);
  const Octet mean = load(settle.affine.mean + (at.left > 0 ? at.channel : 0), at.left);
  Sums own{};
  const auto fetch = [&](int64_t row) { return fetch_row<Rows>(sweep, at, slopes, x, row); };
  for_rows<T, kBytesInFlight>(at, fetch, [&](int64_t row, const Fetched<T>& fetched) {
    const Octet slope = slope_of(slopes, fetched), value = to_floats(fetched.x);
    if (masked != nullptr) Rows::store(slope, at.left, masked + row * sweep.channels + at.channel);
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) {
      own.a.v[i] += slope.v[i];
      own.b.v[i] += slope.v[i] * (value.v[i] - mean.v[i]);
    }
  });
  settle_sums(sweep, at, own, parts, settle);
}

template <class Rows, class T = typename Rows::T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    apply_slopes(RowSweep sweep, Slopes<T> slopes, const T* x, Affine affine, T* dx) {
  wait_for_previous_kernels();
  const Column at = column_from_end(sweep, blockIdx.x);
  if (at.left <= 0) return;
  const Octet mean = load(affine.mean + at.channel, at.left),
              scale = load(affine.scale + at.channel, at.left),
              pull = load(affine.pull + at.channel, at.left),
              shift = load(affine.shift + at.channel, at.left);
  const auto fetch = [&](int64_t row) { return fetch_row<Rows>(sweep, at, slopes, x, row); };
  for_rows<T, kBytesInFlight>(at, fetch, [&](int64_t row, const Fetched<T>& fetched) {
    const Octet slope = slope_of(slopes, fetched), value = to_floats(fetched.x);
    Octet result;
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) {
      const float away = value.v[i] - mean.v[i];
      result.v[i] = scale.v[i] * slope.v[i] + pull.v[i] * away + shift.v[i];
    }
    Rows::store(result, at.left, dx + row * sweep.channels + at.channel);
  });
}

}  // namespace

cudaError_t launch_batch_norm_backward(const ImageRows& images, double eps, const BatchNormGradients& t,
                                       const BlockSums& memory, cudaStream_t stream) {
  const RowSweep sweep(images.rows, images.channels);
  const Parts parts(sweep, memory.workspace, memory.counters);
  float* constants = parts.behind(sweep);
  const Affine affine{t.mean, constants, constants + sweep.channels, constants + 2 * sweep.channels};
  const Settlement settle{.rows = static_cast<double>(sweep.rows),
                          .eps = eps,
                          .gamma = t.gamma,
                          .variance = t.variance,
                          .dgamma = t.dgamma,
                          .dbeta = t.dbeta,
                          .affine = affine};
  const bool whole = has_whole_octets(sweep.channels, t.x, t.dy, t.other_dy, t.masked, t.dx);
  return with_octets(images.dtype, whole, [=](auto rows) {
    using Rows = decltype(rows);
    using T = typename Rows::T;
    const auto *x = static_cast<const T*>(t.x), *other = static_cast<const T*>(t.other_dy);
    auto* masked = static_cast<T*>(t.masked);
    const Slopes<T> given{static_cast<const T*>(t.dy), other, t.mask};
    // The second pass reads the masked gradient if there is one: dy may have been overwritten by it.
    const Slopes<T> kept = masked == nullptr ? given : Slopes<T>{masked, nullptr, nullptr};
    const cudaError_t status = launch(measure_slopes<Rows>, sweep.grid(), sweep.block(), stream, sweep, given,
                                      x, masked, parts, settle);
    if (status != cudaSuccess) return status;
    return launch(apply_slopes<Rows>, sweep.grid(), sweep.block(), stream, sweep, kept, x, affine,
                  static_cast<T*>(t.dx));
  });
}

}  // namespace trainer::cuda
