// SPDX-License-Identifier: Apache-2.0
#include "cuda/optimizer.h"

#include "cuda/parameters.h"

namespace trainer::cuda {
namespace {

__device__ inline float value_or(const float* from, float otherwise) {
  return from == nullptr ? otherwise : *from;
}

/// What all elements of a step have in common.
struct Scalars {
  float lr, scale, correction1, root_correction2;
};

struct SgdStep {
  static constexpr int kMoments = 1;
  SgdRule rule;
  __device__ Scalars prepare(const StepScalars& s) const { return {*s.lr, value_or(s.scale, 1), 0, 0}; }
  __device__ void operator()(const Scalars& s, float decay, float& w, float g, float& m, float&) const {
    SgdRule own = rule;
    own.weight_decay = decay;
    own(w, s.scale * g, m, s.lr);
  }
};

struct AdamWStep {
  static constexpr int kMoments = 2;
  AdamWRule rule;
  __device__ Scalars prepare(const StepScalars& s) const {
    const double t = *s.updates + 1.0;
    return {*s.lr, value_or(s.scale, 1), static_cast<float>(1 - ::pow(rule.beta1, t)),
            static_cast<float>(math::sqrt(1 - ::pow(rule.beta2, t)))};
  }
  __device__ void operator()(const Scalars& s, float decay, float& w, float g, float& m, float& v) const {
    AdamWRule own = rule;
    own.weight_decay = decay;
    own(w, s.scale * g, m, v, s.lr, s.correction1, s.root_correction2);
  }
};

/// `ratios`, where there are any, multiply a parameter's gradient and decay.
template <class Step>
__global__ void __launch_bounds__(kThreads)
    update_parameters(const __grid_constant__ ParameterTable table, StepScalars given, Step step,
                      const float* ratios) {
  TRAINER_SHARED(Scalars, shared, [1]);
  if (threadIdx.x == 0) shared[0] = step.prepare(given);
  __syncthreads();
  const bool skip = value_or(given.skip, 0) != 0;
  const Share share = share_of_block(table);
  const ParameterPointers& p = table.of[share.parameter];
  Scalars scalars = shared[0];
  const float ratio = ratios == nullptr ? 1 : ratios[share.parameter];
  scalars.scale *= ratio;
  for (int64_t i = share.begin + threadIdx.x * Octet::kSize; i < share.end; i += kThreads * Octet::kSize) {
    const int64_t left = share.end - i;
    Octet w = load(p.w + i, left), m{}, v{};
    const Octet g = load(p.g + i, left);
    if (p.moments[0] != nullptr) m = load(p.moments[0] + i, left);
    if (Step::kMoments > 1) v = load(p.moments[1] + i, left);
#pragma unroll
    for (int e = 0; e < Octet::kSize; ++e) {
      if (!skip) step(scalars, ratio * p.decay, w.v[e], g.v[e], m.v[e], v.v[e]);
    }
    store(w, left, p.new_w + i);
    if (p.moments[0] != nullptr) store(m, left, p.new_moments[0] + i);
    if (Step::kMoments > 1) store(v, left, p.new_moments[1] + i);
  }
}

template <class Step>
cudaError_t launch_step(const Step& step, const StepScalars& scalars,
                        std::span<const ParameterPointers> parameters, const float* ratios,
                        cudaStream_t stream) {
  return for_each_table(
      parameters, [&](const ParameterTable& table, dim3 blocks, size_t parameters_before, int64_t) {
        return launch(update_parameters<Step>, blocks, dim3(kThreads), stream, table, scalars, step,
                      ratios == nullptr ? nullptr : ratios + parameters_before);
      });
}

}  // namespace

cudaError_t launch_sgd(const SgdRule& rule, const StepScalars& scalars,
                       std::span<const ParameterPointers> parameters, const float* ratios,
                       cudaStream_t stream) {
  return launch_step(SgdStep{rule}, scalars, parameters, ratios, stream);
}

cudaError_t launch_adamw(const AdamWRule& rule, const StepScalars& scalars,
                         std::span<const ParameterPointers> parameters, cudaStream_t stream) {
  return launch_step(AdamWStep{rule}, scalars, parameters, nullptr, stream);
}

}  // namespace trainer::cuda
