// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"

namespace trainer::cuda {

/// Taps of one axis in device memory: output o is the sum of weight[t] * input[t], begin[o] <= t < begin[o +
/// 1].
struct DeviceTaps {
  const int32_t *begin, *input;
  const float* weight;
  int32_t outputs;
};

/// x (samples, height, width, channels) -> y (samples, rows.outputs, columns.outputs, channels)
struct Resampled {
  int64_t samples, channels;
  int32_t height, width;
  DeviceTaps rows, columns;
};
cudaError_t launch_resample(const Resampled& images, DType dtype, const void* x, void* y,
                            cudaStream_t stream);

}  // namespace trainer::cuda
