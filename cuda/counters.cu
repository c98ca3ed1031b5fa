// SPDX-License-Identifier: Apache-2.0
#include <cfloat>

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/optimizer.h"

namespace trainer::cuda {
namespace {

__global__ void __launch_bounds__(1)
    look_up(const float* table, const int32_t* index, int64_t last, float* y) {
  wait_for_previous_kernels();
  *y = table[*index < last ? *index : last];
}

__global__ void __launch_bounds__(1) add_one(const int32_t* x, const float* skip, int32_t* y) {
  wait_for_previous_kernels();
  *y = *x + (skip != nullptr && *skip != 0 ? 0 : 1);
}

__global__ void multiply(const float* x, const float* factor, float* y, int64_t count) {
  wait_for_previous_kernels();
  const float by = *factor;
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    store(each([by](float value) { return value * by; }, load(x + i, count - i)), count - i, y + i);
  }
}

__global__ void scale(const float* x, float factor, float* y, int64_t count) {
  wait_for_previous_kernels();
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    store(each([factor](float value) { return value * factor; }, load(x + i, count - i)), count - i, y + i);
  }
}

__global__ void __launch_bounds__(1) update_scale(LossScaling how, LossScaleState old, const float* found,
                                                  const float* held, LossScaleState next) {
  wait_for_previous_kernels();
  const bool stays = held != nullptr && *held != 0;
  float scale = *old.scale;
  int32_t good = *old.good + (stays ? 0 : 1), skipped = *old.skipped;
  if (!stays && *found != 0) {
    const double lower = scale * how.backoff;
    scale = static_cast<float>(lower < how.smallest ? how.smallest : lower);
    good = 0;
    ++skipped;
  } else if (!stays && good == how.interval) {
    const double grown = scale * how.growth;
    if (grown <= FLT_MAX) scale = static_cast<float>(grown);
    good = 0;
  }
  *next.scale = scale;
  if (next.good != nullptr) *next.good = good;
  if (next.skipped != nullptr) *next.skipped = skipped;
}

}  // namespace

cudaError_t launch_multiply_by(const float* x, const float* factor, float* y, int64_t count,
                               cudaStream_t stream) {
  return launch(multiply, blocks_for(count), dim3(kThreads), stream, x, factor, y, count);
}

cudaError_t launch_multiply(const float* x, float factor, float* y, int64_t count, cudaStream_t stream) {
  return launch(scale, blocks_for(count), dim3(kThreads), stream, x, factor, y, count);
}

cudaError_t launch_update_loss_scale(const LossScaling& scaling, const LossScaleState& old,
                                     const float* found, const float* held, const LossScaleState& next,
                                     cudaStream_t stream) {
  return launch(update_scale, dim3(1), dim3(1), stream, scaling, old, found, held, next);
}

cudaError_t launch_lookup(const float* table, const int32_t* index, int64_t last, float* y,
                          cudaStream_t stream) {
  return launch(look_up, dim3(1), dim3(1), stream, table, index, last, y);
}

cudaError_t launch_increment(const int32_t* x, const float* skip, int32_t* y, cudaStream_t stream) {
  return launch(add_one, dim3(1), dim3(1), stream, x, skip, y);
}

}  // namespace trainer::cuda
