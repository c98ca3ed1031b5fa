// SPDX-License-Identifier: Apache-2.0
#include "cuda/layer_norm.h"

#include "core/base/math.h"
#include "cuda/last_block.h"
#include "cuda/reduce.h"
#include "cuda/team.h"

namespace trainer::cuda {
namespace {

/// A row's elements, as the team's threads take them: eight by eight. Repeated reads come from the cache. A
/// sum is used as it is stored, so that a sum which is normalised again gives bitwise identical results.
template <class T>
struct RowSource {
  const T *x, *residual;  ///< residual may be nullptr

  __device__ Octet at(int64_t place, int64_t left) const {
    const Octet value = load(x + place, left);
    if (residual == nullptr) return value;
    return each(
        [](float a, float b) {
          T stored;
          put(a + b, stored);
          return to_float(stored);
        },
        value, load(residual + place, left));
  }
};

/// Sums over a row in f32: of a thread's octets in order, then over the team in a tree.
template <class T, class Team>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    normalise(NormRows rows, double eps, RowSource<T> source, const float* gamma, const float* beta, T* y,
              T* sum, float* factor_of, float* mean_of) {
  wait_for_previous_kernels();
  const int64_t row = Team::row();
  if (row >= rows.rows) return;
  const int64_t first = row * rows.width, begin = Team::member() * Octet::kSize,
                step = Team::kSize * Octet::kSize;
  const float count = static_cast<float>(rows.width);
  float mean = 0;
  if (!rows.rms) {
    float total = 0;
    for (int64_t i = begin; i < rows.width; i += step) {
      const Octet value = source.at(first + i, rows.width - i);
#pragma unroll
      for (int k = 0; k < Octet::kSize; ++k) total += value.v[k];
    }
    mean = Team::sum(total) / count;
  }
  float squares = 0;
  for (int64_t i = begin; i < rows.width; i += step) {
    const Octet value = source.at(first + i, rows.width - i);
#pragma unroll
    for (int k = 0; k < Octet::kSize; ++k) {
      const float deviation = i + k < rows.width ? value.v[k] - mean : 0.0f;
      squares += deviation * deviation;
    }
  }
  const float factor =
      static_cast<float>(1 / math::sqrt(Team::sum(squares) / static_cast<double>(rows.width) + eps));
  for (int64_t i = begin; i < rows.width; i += step) {
    const int64_t left = rows.width - i;
    const Octet value = source.at(first + i, left);
    Octet result = each([=](float x) { return (x - mean) * factor; }, value);
    if (gamma != nullptr)
      result = each([](float a, float b) { return a * b; }, result, load(gamma + i, left));
    if (beta != nullptr) result = each([](float a, float b) { return a + b; }, result, load(beta + i, left));
    if (sum != nullptr) store(value, left, sum + first + i);
    store(result, left, y + first + i);
  }
  if (Team::member() != 0) return;
  if (factor_of != nullptr) factor_of[row] = factor;
  if (mean_of != nullptr) mean_of[row] = mean;
}

/// Inputs of the gradient; gamma may be nullptr, and so may mean_of, which then is zero. Rows: Octets of T.
template <class Rows>
struct Given {
  using T = typename Rows::T;
  const T *dy, *s;
  const float *gamma, *factor_of, *mean_of;

  /// Of eight elements, as they are stored.
  struct Fetched {
    Stored<T> dy, s;
  };
  __device__ Fetched fetch(int64_t place, int64_t left) const {
    return {Rows::fetch(dy + place, left), Rows::fetch(s + place, left)};
  }
  __device__ float mean(int64_t row) const { return mean_of == nullptr ? 0.0f : mean_of[row]; }
  /// gamma * dy
  __device__ Octet slope(const Fetched& at, int64_t column, int64_t left) const {
    const Octet slope = to_floats(at.dy);
    if (gamma == nullptr) return slope;
    return each([](float a, float b) { return a * b; }, slope, load(gamma + column, left));
  }
  /// (s - mean) * factor
  __device__ Octet normal(const Fetched& at, float mean, float factor) const {
    return each([=](float value) { return (value - mean) * factor; }, to_floats(at.s));
  }
};

/// With h = (s - mean) * factor and g = gamma * dy: dx = factor * (g - mean of g - h * mean of g h) + other;
/// with rms the mean of g is omitted. Not __restrict__: dx may be an input.
template <class Rows, class Team>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    gradient_rows(NormRows rows, Given<Rows> given, const typename Rows::T* other, typename Rows::T* dx) {
  wait_for_previous_kernels();
  const int64_t row = Team::row();
  if (row >= rows.rows) return;
  const int64_t first = row * rows.width;
  const float count = static_cast<float>(rows.width), mean = given.mean(row), factor = given.factor_of[row];
  const auto fetch = [&](int64_t i) { return given.fetch(first + i, rows.width - i); };
  using Fetched = typename Given<Rows>::Fetched;
  float slopes = 0, products = 0;
  for_octets<Team>(rows.width, fetch, [&](int64_t i, const Fetched& at) {
    Octet slope = given.slope(at, i, rows.width - i), normal = given.normal(at, mean, factor);
#pragma unroll
    for (int k = 0; k < Octet::kSize; ++k) {
      slopes += slope.v[k];
      products += slope.v[k] * normal.v[k];
    }
  });
  const float shift = rows.rms ? 0.0f : Team::sum(slopes) / count, pull = Team::sum(products) / count;
  for_octets<Team>(rows.width, fetch, [&](int64_t i, const Fetched& at) {
    const int64_t left = rows.width - i;
    Octet result = each([=](float g, float h) { return factor * (g - shift - h * pull); },
                        given.slope(at, i, left), given.normal(at, mean, factor));
    if (other != nullptr)
      result = each([](float a, float b) { return a + b; }, result, Rows::load(other + first + i, left));
    Rows::store(result, left, dx + first + i);
  });
}

/// Sums of dy h and of dy over each part of the rows; the last block of a column adds them up. Either result
/// may be nullptr.
template <class Rows>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    sum_gradients(RowSweep sweep, Given<Rows> given, Parts parts, float* dgamma, float* dbeta) {
  wait_for_previous_kernels();
  const Column at = column_of(sweep, blockIdx.x);
  Sums own{};
  struct Row {
    typename Given<Rows>::Fetched at;
    float mean, factor;
  };
  const auto fetch = [&](int64_t row) {
    return Row{given.fetch(row * sweep.channels + at.channel, at.left), given.mean(row),
               given.factor_of[row]};
  };
  for_rows<typename Rows::T, kBytesOfTwo<Rows>>(at, fetch, [&](int64_t, const Row& row) {
    const Octet slope = to_floats(row.at.dy), normal = given.normal(row.at, row.mean, row.factor);
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) {
      own.a.v[i] += slope.v[i] * normal.v[i];
      own.b.v[i] += slope.v[i];
    }
  });
  settle_sums(sweep, at, own, parts, [=](int64_t c, const Totals& sums) {
    if (dgamma != nullptr) dgamma[c] = static_cast<float>(sums.a);
    if (dbeta != nullptr) dbeta[c] = static_cast<float>(sums.b);
  });
}

template <class Rows>
cudaError_t launch_sums(const NormRows& rows, const Given<Rows>& given, const LayerNormGradients& t,
                        const BlockSums& memory, cudaStream_t stream) {
  const RowSweep sweep(rows.rows, rows.width);
  return launch(sum_gradients<Rows>, sweep.grid(), sweep.block(), stream, sweep, given,
                Parts(sweep, memory.workspace, memory.counters), t.dgamma, t.dbeta);
}

}  // namespace

cudaError_t launch_layer_norm(const NormRows& rows, double eps, const LayerNormTensors& t,
                              cudaStream_t stream) {
  return with_storage(rows.dtype, [=](auto type) {
    using T = decltype(type);
    const RowSource<T> source{static_cast<const T*>(t.x), static_cast<const T*>(t.residual)};
    return with_team(rows.width, [=](auto team) {
      using Team = decltype(team);
      return launch(normalise<T, Team>, Team::grid(rows.rows), dim3(kThreads), stream, rows, eps, source,
                    t.gamma, t.beta, static_cast<T*>(t.y), static_cast<T*>(t.sum), t.factor, t.mean);
    });
  });
}

int64_t layer_norm_backward_workspace(const NormRows& rows) {
  return Parts::bytes(RowSweep(rows.rows, rows.width));
}

cudaError_t launch_layer_norm_backward(const NormRows& rows, const LayerNormGradients& t,
                                       const BlockSums& memory, cudaStream_t stream) {
  const bool whole = has_whole_octets(rows.width, t.dy, t.s, t.other, t.dx);
  return with_octets(rows.dtype, whole, [=](auto octets) {
    using Rows = decltype(octets);
    using T = typename Rows::T;
    const Given<Rows> given{static_cast<const T*>(t.dy), static_cast<const T*>(t.s), t.gamma, t.factor,
                            t.mean};
    if (t.dgamma != nullptr || t.dbeta != nullptr) {  // before dx, which may overwrite dy
      const cudaError_t status = launch_sums(rows, given, t, memory, stream);
      if (status != cudaSuccess) return status;
    }
    return with_team(rows.width, [=](auto team) {
      using Team = decltype(team);
      return launch(gradient_rows<Rows, Team>, Team::grid(rows.rows), dim3(kThreads), stream, rows, given,
                    static_cast<const T*>(t.other), static_cast<T*>(t.dx));
    });
  });
}

}  // namespace trainer::cuda
