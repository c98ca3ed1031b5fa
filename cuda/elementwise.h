// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "core/base/dtype.h"
#include "core/graph/ops/elementwise.h"
#include "cuda/for_each.h"

namespace trainer::cuda {

// Each enqueues one loop over `count` elements of a floating type; an output may be one of the
// inputs.

/// y = f(x)
cudaError_t launch_unary(const elementwise::Function& f, DType dtype, const void* x, void* y, int64_t count,
                         cudaStream_t stream);
/// dx = dy * f'(saved), with saved being x or y, whichever f reads
cudaError_t launch_unary_backward(const elementwise::Function& f, DType dtype, const void* dy,
                                  const void* saved, void* dx, int64_t count, cudaStream_t stream);
/// y = a + b
cudaError_t launch_add(DType dtype, const void* a, const void* b, void* y, int64_t count,
                       cudaStream_t stream);
/// y = min(max(a + b, 0), ceiling)
cudaError_t launch_add_relu(float ceiling, DType dtype, const void* a, const void* b, void* y, int64_t count,
                            cudaStream_t stream);
/// y = a * b
cudaError_t launch_mul(DType dtype, const void* a, const void* b, void* y, int64_t count,
                       cudaStream_t stream);
/// y = old + share * (scale * fresh - old), or old if *skip is not 0; skip may be nullptr
cudaError_t launch_lerp(float share, float scale, const float* skip, DType dtype, const void* old,
                        const void* fresh, void* y, int64_t count, cudaStream_t stream);
/// y = x + other for many tensors of one type
cudaError_t launch_add_all(DType dtype, std::span<const TensorPointers> tensors, cudaStream_t stream);
/// The lerp for many (old, fresh) of one type, each with a share and a scale of its own.
cudaError_t launch_lerp_all(const float* skip, DType dtype, std::span<const TensorPointers> tensors,
                            cudaStream_t stream);

}  // namespace trainer::cuda
