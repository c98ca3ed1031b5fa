// SPDX-License-Identifier: Apache-2.0
#include "cuda/optimizer.h"

#include "cuda/parameters.h"

namespace trainer::cuda {
namespace {

__device__ inline float value_or(const float* from, float otherwise) {
  return from == nullptr ? otherwise : *from;
}

/// `ratios`, if there are any, multiply a parameter's gradient and decay.
template <class Rule>
__global__ void __launch_bounds__(kThreads)
    update_parameters(const ParameterTable __grid_constant__ table, StepScalars given, Rule rule,
                      const float* ratios) {
  wait_for_previous_kernels();
  using Step = typename Rule::template Step<float>;
  TRAINER_SHARED(Step, shared, [1]);
  const Share share = share_of_block(table);
  const ParameterPointers& p = table.of[share.item];
  if (threadIdx.x == 0)
    shared[0] = rule.prepare(*given.lr * p.lr_factor, given.updates == nullptr ? 0 : *given.updates);
  __syncthreads();
  const bool skip = value_or(given.skip, 0) != 0;
  const Step step = shared[0];
  const float ratio = ratios == nullptr ? 1 : ratios[share.item];
  const float scale = value_or(given.scale, 1) * ratio, decay = ratio * p.decay;
  for (int64_t i = share.begin + threadIdx.x * Octet::kSize; i < share.end; i += kThreads * Octet::kSize) {
    const int64_t left = share.end - i;
    Octet w = load(p.w + i, left), moments[update::kMostMoments]{};
    const Octet g = load(p.g + i, left);
#pragma unroll
    for (size_t m = 0; m < Rule::kMoments; ++m) {
      if (p.moments[m] != nullptr) moments[m] = load(p.moments[m] + i, left);
    }
#pragma unroll
    for (int e = 0; e < Octet::kSize; ++e) {
      update::Moments<float> own{moments[0].v[e], moments[1].v[e], moments[2].v[e]};
      if (!skip) rule(step, decay, scale * g.v[e], w.v[e], own);
      moments[0].v[e] = own.first, moments[1].v[e] = own.second, moments[2].v[e] = own.third;
    }
    store(w, left, p.new_w + i);
#pragma unroll
    for (size_t m = 0; m < Rule::kMoments; ++m) {
      if (p.moments[m] != nullptr) store(moments[m], left, p.new_moments[m] + i);
    }
  }
}

}  // namespace

cudaError_t launch_update(const update::Rule& any, const StepScalars& scalars,
                          std::span<const ParameterPointers> parameters, const float* ratios,
                          cudaStream_t stream) {
  auto launch_tables = [&](auto rule) {
    return for_each_table(parameters, [&](const ParameterTable& table, dim3 blocks, size_t before, int64_t) {
      return launch(update_parameters<decltype(rule)>, blocks, dim3(kThreads), stream, table, scalars, rule,
                    ratios == nullptr ? nullptr : ratios + before);
    });
  };
  return std::visit(launch_tables, any);
}

}  // namespace trainer::cuda
