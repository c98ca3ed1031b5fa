// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/graph/ops/step_guard.h"

namespace trainer::cuda {

/// A guard's inputs, in device memory; all but the loss may be nullptr.
struct GuardInputs {
  const float *loss, *found, *norm;
  const int32_t *steps, *pairs;
  const float* window;
  const int32_t *accepted, *skipped, *in_a_row;
  int64_t pair_numbers, window_size;  ///< the window has this many losses, then the same number of norms
  double loss_sigmas, norm_sigmas;    ///< 0: not watched
};
/// A guard's outputs; each may be nullptr, and the last four may share memory with the inputs.
struct GuardOutputs {
  float *skip, *held;
  int32_t* reason;
  float* window;
  int32_t *accepted, *skipped, *in_a_row;
};
cudaError_t launch_step_guard(bool scaled, const GuardInputs& in, const GuardOutputs& out,
                              cudaStream_t stream);

/// y = fresh, or old if *skip is not 0; all f32, y may be either.
cudaError_t launch_keep(const float* old, const float* fresh, const float* skip, float* y, int64_t count,
                        cudaStream_t stream);

}  // namespace trainer::cuda
