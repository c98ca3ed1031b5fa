// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "core/graph/ops/loss_scale.h"
#include "core/graph/ops/optimizer_steps.h"

namespace trainer::cuda {

/// A parameter's f32 tensors as they are stored. Old and new may be the same memory; absent moments are
/// nullptr.
struct ParameterPointers {
  const float *w, *g;
  const float* moments[update::kMostMoments];
  float* new_w;
  float* new_moments[update::kMostMoments];
  int64_t count;
  float decay, lr_factor;
  bool adapts;  ///< to its norms, if the rule does
};

/// As many parameters as fit among a kernel's arguments (32764 bytes since CUDA 12.1).
constexpr size_t kMostInTable = 320;
/// Number of kernels that one pass over parameters starts.
constexpr int parameter_tables(size_t parameters) {
  return static_cast<int>((parameters + kMostInTable - 1) / kMostInTable);
}

/// One number each in device memory; updates, scale and skip may be nullptr.
struct StepScalars {
  const float* lr;
  const int32_t* updates;
  const float *scale, *skip;
};

/// One pass over all parameters, in the fewest launches that their pointers fit into. `ratios`, if the rule
/// adapts, multiply each parameter's gradient and decay; else nullptr.
cudaError_t launch_update(const update::Rule& rule, const StepScalars& scalars,
                          std::span<const ParameterPointers> parameters, const float* ratios,
                          cudaStream_t stream);

/// y = table[min(index, last)]
cudaError_t launch_lookup(const float* table, const int32_t* index, int64_t last, float* y,
                          cudaStream_t stream);
/// y = x + 1, or x if *skip is not 0; skip may be null.
cudaError_t launch_increment(const int32_t* x, const float* skip, int32_t* y, cudaStream_t stream);

/// y = x * factor, all f32; y may be x.
cudaError_t launch_multiply_by(const float* x, const float* factor, float* y, int64_t count,
                               cudaStream_t stream);
/// The same with a factor from the host.
cudaError_t launch_multiply(const float* x, float factor, float* y, int64_t count, cudaStream_t stream);
/// The state of loss scaling; the new state may share the old one's memory.
struct LossScaleState {
  float* scale;
  int32_t *good, *skipped;
};
/// Counters of the new state may be nullptr; so may held.
cudaError_t launch_update_loss_scale(const LossScaling& scaling, const LossScaleState& old,
                                     const float* found, const float* held, const LossScaleState& next,
                                     cudaStream_t stream);

}  // namespace trainer::cuda
