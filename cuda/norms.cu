// SPDX-License-Identifier: Apache-2.0
#include "cuda/norms.h"

#include "cuda/last_block.h"
#include "cuda/parameters.h"
#include "cuda/reduce.h"

namespace trainer::cuda {
namespace {

/// Sums of squares of a part of a parameter.
struct Squares {
  double w, g;
};

__device__ inline double add_squares(double sum, const Octet& x) {
#pragma unroll
  for (int e = 0; e < Octet::kSize; ++e) sum += static_cast<double>(x.v[e]) * x.v[e];
  return sum;
}

/// One result for each block. Without weights (nullptr) their sum is 0.
__global__ void __launch_bounds__(kThreads)
    sum_squares(const ParameterTable __grid_constant__ table, Squares* partial) {
  wait_for_previous_kernels();
  const Share share = share_of_block(table);
  const ParameterPointers& p = table.of[share.item];
  Squares sum{};
  for (int64_t i = share.begin + threadIdx.x * Octet::kSize; i < share.end; i += kThreads * Octet::kSize) {
    sum.g = add_squares(sum.g, load(p.g + i, share.end - i));
    if (p.w != nullptr) sum.w = add_squares(sum.w, load(p.w + i, share.end - i));
  }
  TRAINER_SHARED(Squares, of_warp, [kThreads / kWarp]);
  sum = {warp_sum(sum.w), warp_sum(sum.g)};
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kThreads / kWarp; ++warp) sum.w += of_warp[warp].w, sum.g += of_warp[warp].g;
  partial[blockIdx.x] = sum;
}

/// The parts' sums. A block adds up one for each thread.
struct Partials {
  const Squares* of;
  int64_t count;
  double* groups;  ///< a sum for each block that adds up
  unsigned* counter;

  dim3 blocks() const {
    return dim3(static_cast<unsigned>(std::max<int64_t>((count + kThreads - 1) / kThreads, 1)));
  }
};

/// The sum of the squares of all gradients, for the one thread that gets true: of the block that is done
/// last.
__device__ inline bool add_up(const Partials& partial, double& sum) {
  const int64_t own = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  sum = block_sum(own < partial.count ? partial.of[own].g : 0.0);
  if (gridDim.x == 1) return threadIdx.x == 0;
  if (threadIdx.x == 0) partial.groups[blockIdx.x] = sum;
  if (!is_last(partial.counter, gridDim.x)) return false;
  sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) sum += partial.groups[i];
  sum = block_sum(sum);
  return threadIdx.x == 0;
}

__global__ void __launch_bounds__(kThreads)
    finish_clip(Partials partial, ClipSettings rule, float* scale, float* norm) {
  wait_for_previous_kernels();
  double sum = 0;
  if (!add_up(partial, sum)) return;
  sum = math::sqrt(sum);
  const double wanted = rule.max_norm / (sum + rule.eps);
  *scale = static_cast<float>(!rule.lengthens && wanted > 1 ? 1 : wanted);  // NaN stays
  if (norm != nullptr) *norm = static_cast<float>(sum);
}

/// The squares of f32 do not overflow in double, so their sum is finite if all of them are.
__global__ void __launch_bounds__(kThreads)
    finish_unscale(Partials partial, double max_norm, const float* scale, Unscaled to) {
  wait_for_previous_kernels();
  double sum = 0;
  if (!add_up(partial, sum)) return;
  const double norm = math::sqrt(sum) / *scale, wanted = max_norm < INFINITY ? max_norm / (norm + 1e-6) : 1;
  *to.factor = static_cast<float>((wanted > 1 ? 1 : wanted) / *scale);  // NaN stays
  if (to.found != nullptr) *to.found = sum - sum == 0 ? 0.0f : 1.0f;
  if (to.norm != nullptr) *to.norm = static_cast<float>(norm);
}

/// One warp for each parameter.
template <class Rule>
__global__ void __launch_bounds__(kWarp)
    find_ratios(const ParameterTable __grid_constant__ table, const Squares* partial, Rule rule,
                const float* scale, float* ratios) {
  wait_for_previous_kernels();
  const int p = static_cast<int>(blockIdx.x);
  Squares sum{};
  for (int block = table.first_block[p] + static_cast<int>(threadIdx.x); block < table.first_block[p + 1];
       block += kWarp) {
    sum.w += partial[block].w, sum.g += partial[block].g;
  }
  const double w = math::sqrt(warp_sum(sum.w)), g = ::sqrt(warp_sum(sum.g)) * (scale == nullptr ? 1 : *scale);
  if (threadIdx.x != 0) return;
  const double decay = table.of[p].decay;
  ratios[p] = table.of[p].adapts ? static_cast<float>(rule.ratio(decay, w, g)) : 1.0f;
}

/// The ratios come first; this many times the size of a sum holds them.
size_t sums_before(size_t parameters) {
  return (parameters * sizeof(float) + sizeof(Squares) - 1) / sizeof(Squares);
}

Squares* sums_in(void* workspace, size_t parameters) {
  return static_cast<Squares*>(workspace) + sums_before(parameters);
}

}  // namespace

int64_t norm_workspace_bytes(std::span<const int64_t> counts) {
  Partials partial{};
  for (int64_t count : counts) partial.count += blocks_of(count);
  const int64_t sums = static_cast<int64_t>(sums_before(counts.size())) + partial.count;
  return sums * static_cast<int64_t>(sizeof(Squares)) +
         int64_t{partial.blocks().x} * static_cast<int64_t>(sizeof(double));
}

/// Sums up the squares of all parameters' parts and then calls finish(their partial results).
template <class Finish>
static cudaError_t launch_sums(std::span<const ParameterPointers> parameters, const BlockSums& to,
                               cudaStream_t stream, const Finish& finish) {
  Squares* partial = sums_in(to.workspace, parameters.size());
  int64_t count = 0;
  const cudaError_t status = for_each_table(
      parameters, [&](const ParameterTable& table, dim3 blocks, size_t, int64_t blocks_before) {
        count = blocks_before + blocks.x;
        return launch(sum_squares, blocks, dim3(kThreads), stream, table, partial + blocks_before);
      });
  if (status != cudaSuccess) return status;
  return finish(Partials{partial, count, reinterpret_cast<double*>(partial + count), to.counters});
}

cudaError_t launch_clip(const ClipSettings& rule, std::span<const ParameterPointers> parameters,
                        const BlockSums& to, float* scale, float* norm, cudaStream_t stream) {
  return launch_sums(parameters, to, stream, [&](const Partials& partial) {
    return launch(finish_clip, partial.blocks(), dim3(kThreads), stream, partial, rule, scale, norm);
  });
}

cudaError_t launch_unscale(double max_norm, const float* scale, std::span<const ParameterPointers> parameters,
                           const BlockSums& to, const Unscaled& results, cudaStream_t stream) {
  return launch_sums(parameters, to, stream, [&](const Partials& partial) {
    return launch(finish_unscale, partial.blocks(), dim3(kThreads), stream, partial, max_norm, scale,
                  results);
  });
}

cudaError_t launch_ratios(const update::Rule& any, const float* scale,
                          std::span<const ParameterPointers> parameters, void* workspace,
                          cudaStream_t stream) {
  Squares* partial = sums_in(workspace, parameters.size());
  auto launch_tables = [&](auto rule) {
    return for_each_table(parameters, [&](const ParameterTable& table, dim3 blocks, size_t before,
                                          int64_t blocks_before) {
      const cudaError_t status =
          launch(sum_squares, blocks, dim3(kThreads), stream, table, partial + blocks_before);
      if (status != cudaSuccess) return status;
      return launch(find_ratios<decltype(rule)>, dim3(static_cast<unsigned>(table.size)), dim3(kWarp), stream,
                    table, partial + blocks_before, rule, scale, static_cast<float*>(workspace) + before);
    });
  };
  return std::visit(
      [&](auto rule) {
        if constexpr (decltype(rule)::kAdapts) {
          return launch_tables(rule);
        } else {
          return cudaSuccess;
        }
      },
      any);
}

}  // namespace trainer::cuda
