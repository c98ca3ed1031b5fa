// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "core/base/dtype.h"
#include "cuda/for_each.h"

namespace trainer::cuda {

/// y[i] = x[i] in another type; x may be u8, y is a floating type.
cudaError_t launch_cast(DType from, DType to, const void* x, void* y, int64_t count, cudaStream_t stream);
/// The same for many tensors of one type.
cudaError_t launch_cast_all(DType from, DType to, std::span<const TensorPointers> tensors,
                            cudaStream_t stream);

/// y = 0 (f32) for many tensors.
cudaError_t launch_clear_all(std::span<const TensorPointers> tensors, cudaStream_t stream);

/// Rows of `columns` elements, x_step and y_step elements from one to the next, in another type or the same.
cudaError_t launch_move_rows(DType from, DType to, const void* x, int64_t x_step, void* y, int64_t y_step,
                             int64_t rows, int64_t columns, cudaStream_t stream);

/// `batch` matrices of rows x columns -> columns x rows, in another type or the same.
cudaError_t launch_transpose(DType from, DType to, const void* x, void* y, int64_t batch, int64_t rows,
                             int64_t columns, cudaStream_t stream);

/// (outer, a, middle, b, inner) -> (outer, b, middle, a, inner).
struct Exchange {
  int64_t outer, a, middle, b, inner;
};
cudaError_t launch_exchange(const Exchange& sizes, DType dtype, const void* x, void* y, cudaStream_t stream);

/// `rows` pieces of `length` bytes, which begin at multiples of the steps.
struct Pieces {
  int64_t rows, length, src_step, dst_step;
};
cudaError_t launch_copy(const Pieces& pieces, const void* src, void* dst, cudaStream_t stream);
/// The same with zeros around: each piece has `before` of them in front, and more up to dst_step after.
cudaError_t launch_pad(const Pieces& pieces, int64_t before, const void* src, void* dst, cudaStream_t stream);

}  // namespace trainer::cuda
