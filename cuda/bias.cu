// SPDX-License-Identifier: Apache-2.0
#include "cuda/bias.h"

#include "core/graph/ops/elementwise.h"
#include "cuda/rows.h"

namespace trainer::cuda {
namespace {

struct Plus {
  __device__ float operator()(float sum, float value) const { return sum + value; }
};

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

template <class T>
__global__ void __launch_bounds__(kThreads) sum_part(RowWalk walk, const T* x, float* part_sums) {
  const Column at = column_of(walk, blockIdx.x);
  Sums own{};
  for (int64_t row = at.row; row < at.end; row += at.step) {
    own.a = each(Plus{}, own.a, load(x + row * walk.channels + at.channel, at.left));
  }
  own = reduce_rows(own, AddSums{});
  if (threadIdx.y != 0 || at.left <= 0) return;
  store(own.a, at.left, part_sums + blockIdx.y * walk.channels + at.channel);
}

template <class T>
__global__ void __launch_bounds__(kFinishWide* kFinishHigh)
    finish_sums(RowWalk walk, const float* part_sums, T* sums) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kFinishWide + threadIdx.x;
  const double sum = sum_parts(walk.parts, [&](int64_t part) {
    return c < walk.channels ? static_cast<double>(part_sums[part * walk.channels + c]) : 0.0;
  });
  if (threadIdx.y == 0 && c < walk.channels) put(static_cast<float>(sum), sums[c]);
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
  return RowWalk(shape.rows, shape.columns).parts * shape.columns * static_cast<int64_t>(sizeof(float));
}

cudaError_t launch_column_sums(const Matrix& shape, const void* y, void* sums, DType sums_dtype,
                               void* workspace, cudaStream_t stream) {
  if (shape.rows * shape.columns == 0) return cudaSuccess;
  const RowWalk walk(shape.rows, shape.columns);
  auto* part_sums = static_cast<float*>(workspace);
  const cudaError_t status = with_storage(shape.dtype, [&](auto of_y) {
    using Y = decltype(of_y);
    return launch(sum_part<Y>, walk.grid(), walk.block(), stream, walk, static_cast<const Y*>(y), part_sums);
  });
  if (status != cudaSuccess) return status;
  return with_storage(sums_dtype, [&](auto of_sums) {
    using S = decltype(of_sums);
    return launch(finish_sums<S>, finish_grid(walk.channels), finish_block(), stream, walk, part_sums,
                  static_cast<S*>(sums));
  });
}

}  // namespace trainer::cuda
