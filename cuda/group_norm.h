// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"

namespace trainer::cuda {

/// Images with their channels last: of each sample `pixels` rows of `channels` numbers.
struct GroupedImages {
  int64_t samples, pixels, channels, groups;
  DType dtype;
};

/// gamma, beta, mean and factor may be nullptr; y may be x.
struct GroupNormTensors {
  const void* x;
  const float *gamma, *beta;
  void* y;
  float *mean, *factor;
};
int64_t group_norm_workspace(const GroupedImages& images);
cudaError_t launch_group_norm(const GroupedImages& images, double eps, const GroupNormTensors& t,
                              void* workspace, cudaStream_t stream);

/// gamma, dgamma and dbeta may be nullptr; dx may be dy or x.
struct GroupNormGradients {
  const void *dy, *x;
  const float *gamma, *mean, *factor;
  void* dx;
  float *dgamma, *dbeta;
};
cudaError_t launch_group_norm_backward(const GroupedImages& images, const GroupNormGradients& t,
                                       void* workspace, cudaStream_t stream);

}  // namespace trainer::cuda
