// SPDX-License-Identifier: Apache-2.0
#include "cuda/bias.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "core/graph/ops/elementwise.h"
#include "cuda/launch.h"

namespace trainer::cuda {
namespace {

constexpr int64_t kThreads = 256, kWarp = 32;

int64_t blocks_for(int64_t count, int64_t per_block) {
  return (count + per_block - 1) / per_block;
}

/// y (rows, columns), walked with the grid as stride; `step` is that stride modulo the columns, so that the
/// column is found without a division.
template <class Y, class B>
__global__ void add_bias(Y* y, const B* bias, int64_t count, int64_t columns, int64_t step, bool relu) {
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  int64_t column = first % columns;
  for (int64_t i = first; i < count; i += stride) {
    float value = static_cast<float>(y[i]);
    if (bias != nullptr) value += static_cast<float>(bias[column]);
    y[i] = static_cast<Y>(relu ? elementwise::Relu{}(value) : value);
    column += step;
    if (column >= columns) column -= columns;
  }
}

/// A thread sums one column of one piece of y's rows: neighbours read neighbours. partial (pieces, columns)
template <class Y>
__global__ void sum_pieces(const Y* y, float* partial, int64_t rows, int64_t columns, int64_t piece_rows) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const int64_t first = int64_t{blockIdx.y} * piece_rows;
  const int64_t last = first + piece_rows < rows ? first + piece_rows : rows;
  float sum = 0;
  for (int64_t row = first; row < last; ++row) sum += static_cast<float>(y[row * columns + column]);
  partial[int64_t{blockIdx.y} * columns + column] = sum;
}

/// A warp sums one column of partial (pieces, columns).
template <class S>
__global__ void sum_partials(const float* partial, S* sums, int64_t pieces, int64_t columns) {
  const int64_t column = int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  if (column >= columns) return;
  float sum = 0;
  for (int64_t piece = threadIdx.x % kWarp; piece < pieces; piece += kWarp)
    sum += partial[piece * columns + column];
  for (int lane = kWarp / 2; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
  if (threadIdx.x % kWarp == 0) sums[column] = static_cast<S>(sum);
}

/// How the rows are divided: enough pieces to fill a large GPU, few enough that summing them costs little.
struct Pieces {
  explicit Pieces(const Matrix& shape) {
    constexpr int64_t kWantedBlocks = 1024, kMostPieces = 512, kLeastRows = 32;
    const int64_t across = blocks_for(shape.columns, kThreads);
    const int64_t wanted = std::clamp(kWantedBlocks / across, int64_t{1}, kMostPieces);
    rows = std::max(kLeastRows, blocks_for(shape.rows, wanted));
    count = blocks_for(shape.rows, rows);
  }
  int64_t rows, count;
};

template <class T>
struct Type {
  using type = T;
};

/// Calls visit(Type<T>) with the type that stores `dtype`.
template <class Visit>
cudaError_t with_type(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::f32:
      return visit(Type<float>{});
    case DType::f16:
      return visit(Type<__half>{});
    case DType::bf16:
      return visit(Type<__nv_bfloat16>{});
    default:
      return cudaErrorInvalidValue;
  }
}

dim3 grid(int64_t x, int64_t y = 1) {
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y));
}

}  // namespace

cudaError_t launch_add_bias(const Matrix& shape, void* y, const void* bias, DType bias_dtype, bool relu,
                            cudaStream_t stream) {
  const int64_t count = shape.rows * shape.columns;
  if (count == 0) return cudaSuccess;
  constexpr int64_t kMostBlocks = 65535;
  const int64_t blocks = std::min(blocks_for(count, kThreads), kMostBlocks);
  return with_type(shape.dtype, [&](auto of_y) {
    using Y = typename decltype(of_y)::type;
    return with_type(bias_dtype, [&](auto of_bias) {
      using B = typename decltype(of_bias)::type;
      return launch(add_bias<Y, B>, grid(blocks), dim3(kThreads), 0, stream, static_cast<Y*>(y),
                    static_cast<const B*>(bias), count, shape.columns, blocks * kThreads % shape.columns,
                    relu);
    });
  });
}

int64_t column_sums_workspace(const Matrix& shape) {
  return Pieces(shape).count * shape.columns * static_cast<int64_t>(sizeof(float));
}

cudaError_t launch_column_sums(const Matrix& shape, const void* y, void* sums, DType sums_dtype,
                               void* workspace, cudaStream_t stream) {
  if (shape.rows * shape.columns == 0) return cudaSuccess;
  const Pieces pieces(shape);
  auto* partial = static_cast<float*>(workspace);
  // A narrow matrix takes no more lanes of a block than it has columns, in whole warps.
  const int64_t threads = std::min(kThreads, blocks_for(shape.columns, kWarp) * kWarp);
  const cudaError_t status = with_type(shape.dtype, [&](auto of_y) {
    using Y = typename decltype(of_y)::type;
    return launch(sum_pieces<Y>, grid(blocks_for(shape.columns, threads), pieces.count), grid(threads), 0,
                  stream, static_cast<const Y*>(y), partial, shape.rows, shape.columns, pieces.rows);
  });
  if (status != cudaSuccess) return status;
  return with_type(sums_dtype, [&](auto of_sums) {
    using S = typename decltype(of_sums)::type;
    return launch(sum_partials<S>, grid(blocks_for(shape.columns, kThreads / kWarp)), dim3(kThreads), 0,
                  stream, partial, static_cast<S*>(sums), pieces.count, shape.columns);
  });
}

}  // namespace trainer::cuda
