// SPDX-License-Identifier: Apache-2.0
#include "cuda/bias.h"

#include <algorithm>

#include "core/graph/ops/elementwise.h"
#include "cuda/grid.h"
#include "cuda/reduce.h"

namespace trainer::cuda {
namespace {

constexpr int64_t kWarpsInBlock = kThreads / kWarp;

int64_t rounded_up(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

/// y (rows, columns), eight elements at once, which may lie in several rows.
template <class Y, class B>
__global__ void add_bias(Y* y, const B* bias, int64_t count, int64_t columns, bool relu) {
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    Octet octet = load(y + i, count - i);
    int64_t column = i % columns;
#pragma unroll
    for (int k = 0; k < Octet::kSize; ++k) {
      if (bias != nullptr) octet.v[k] += to_float(bias[column]);
      if (relu) octet.v[k] = elementwise::Relu{}(octet.v[k]);
      if (++column == columns) column = 0;
    }
    store(octet, count - i, y + i);
  }
}

/// A thread sums one column of one piece of y's rows: neighbours read neighbours. partial (pieces, columns)
template <class Y>
__global__ void sum_pieces(const Y* y, float* partial, int64_t rows, int64_t columns, int64_t piece_rows) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * piece_rows;
  const int64_t last = first + piece_rows < rows ? first + piece_rows : rows;
  float sum = 0;
  for (int64_t row = first; row < last; ++row) sum += to_float(y[row * columns + column]);
  partial[static_cast<int64_t>(blockIdx.y) * columns + column] = sum;
}

/// A warp sums one column of partial (pieces, columns).
template <class S>
__global__ void sum_partials(const float* partial, S* sums, int64_t pieces, int64_t columns) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarpsInBlock + threadIdx.x / kWarp;
  if (column >= columns) return;
  float sum = 0;
  for (int64_t piece = threadIdx.x % kWarp; piece < pieces; piece += kWarp)
    sum += partial[piece * columns + column];
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) put(sum, sums[column]);
}

/// How the rows are divided: enough pieces to fill a large GPU, few enough that summing them costs little.
struct Pieces {
  explicit Pieces(const Matrix& shape) {
    constexpr int64_t kWantedBlocks = 1024, kMostPieces = 512, kLeastRows = 32;
    const int64_t across = rounded_up(shape.columns, kThreads);
    const int64_t wanted = std::clamp(kWantedBlocks / across, int64_t{1}, kMostPieces);
    rows = std::max(kLeastRows, rounded_up(shape.rows, wanted));
    count = rounded_up(shape.rows, rows);
  }
  int64_t rows, count;
};

dim3 grid(int64_t x, int64_t y = 1) {
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y));
}

}  // namespace

cudaError_t launch_add_bias(const Matrix& shape, void* y, const void* bias, DType bias_dtype, bool relu,
                            cudaStream_t stream) {
  const int64_t count = shape.rows * shape.columns;
  if (count == 0) return cudaSuccess;
  return with_storage(shape.dtype, [&](auto of_y) {
    using Y = decltype(of_y);
    return with_storage(bias_dtype, [&](auto of_bias) {
      using B = decltype(of_bias);
      return launch(add_bias<Y, B>, blocks_for(count), dim3(kThreads), stream, static_cast<Y*>(y),
                    static_cast<const B*>(bias), count, shape.columns, relu);
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
  const int64_t threads = std::min<int64_t>(kThreads, rounded_up(shape.columns, kWarp) * kWarp);
  const cudaError_t status = with_storage(shape.dtype, [&](auto of_y) {
    using Y = decltype(of_y);
    return launch(sum_pieces<Y>, grid(rounded_up(shape.columns, threads), pieces.count), grid(threads),
                  stream, static_cast<const Y*>(y), partial, shape.rows, shape.columns, pieces.rows);
  });
  if (status != cudaSuccess) return status;
  return with_storage(sums_dtype, [&](auto of_sums) {
    using S = decltype(of_sums);
    return launch(sum_partials<S>, grid(rounded_up(shape.columns, kWarpsInBlock)), dim3(kThreads), stream,
                  partial, static_cast<S*>(sums), pieces.count, shape.columns);
  });
}

}  // namespace trainer::cuda
