// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch.h"
#include "cuda/optimizer.h"

namespace trainer::cuda {
namespace {

__global__ void look_up(const float* table, const int32_t* index, int64_t last, float* y) {
  *y = table[*index < last ? *index : last];
}

__global__ void add_one(const int32_t* x, const float* skip, int32_t* y) {
  *y = *x + (skip != nullptr && *skip != 0 ? 0 : 1);
}

}  // namespace

cudaError_t launch_lookup(const float* table, const int32_t* index, int64_t last, float* y,
                          cudaStream_t stream) {
  return launch(look_up, dim3(1), dim3(1), stream, table, index, last, y);
}

cudaError_t launch_increment(const int32_t* x, const float* skip, int32_t* y, cudaStream_t stream) {
  return launch(add_one, dim3(1), dim3(1), stream, x, skip, y);
}

}  // namespace trainer::cuda
