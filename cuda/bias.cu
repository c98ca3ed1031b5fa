// SPDX-License-Identifier: Apache-2.0
#include "cuda/bias.h"

#include "core/graph/ops/elementwise.h"
#include "cuda/rows.h"

namespace trainer::cuda {
namespace {

struct Plus {
  __device__ float operator()(float sum, float value) const { return sum + value; }
};

/// y (rows, columns), eight elements at once, which may be in several rows or between them.
template <class Y, class B>
__global__ void add_bias(Y* y, const B* bias, int64_t count, int64_t columns, int64_t step, bool relu) {
  wait_for_previous_kernels();
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    Octet octet = load(y + i, count - i);
    int64_t column = i % step;
#pragma unroll
    for (int k = 0; k < Octet::kSize; ++k) {
      if (bias != nullptr && column < columns) octet.v[k] += to_float(bias[column]);
      if (relu) octet.v[k] = elementwise::Relu{}(octet.v[k]);
      if (++column == step) column = 0;
    }
    store(octet, count - i, y + i);
  }
}

struct Times {
  __device__ float operator()(float x, float factor) const { return x * factor; }
};

/// Sums of x or, with `factors`, of the products of both.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_part(RowSweep sweep, int64_t step, const T* x, const T* factors, float* part_sums) {
  wait_for_previous_kernels();
  const Column at = column_of(sweep, blockIdx.x);
  Sums own{};
  for (int64_t row = at.row; row < at.end; row += at.step) {
    const int64_t place = row * step + at.channel;
    Octet term = load(x + place, at.left);
    if (factors != nullptr) term = each(Times{}, term, load(factors + place, at.left));
    own.a = each(Plus{}, own.a, term);
  }
  own = reduce_rows(own, AddSums{});
  if (threadIdx.y != 0 || at.left <= 0) return;
  store(own.a, at.left, part_sums + blockIdx.y * sweep.channels + at.channel);
}

/// Eight elements at once, which may be in several rows.
template <class T>
__global__ void scale_columns(const T* x, const float* factors, T* y, int64_t count, int64_t columns) {
  wait_for_previous_kernels();
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    Octet octet = load(x + i, count - i);
    int64_t column = i % columns;
#pragma unroll
    for (int k = 0; k < Octet::kSize; ++k) {
      octet.v[k] *= factors[column];
      if (++column == columns) column = 0;
    }
    store(octet, count - i, y + i);
  }
}

template <class T>
__global__ void __launch_bounds__(kFinishWide* kFinishHigh)
    finish_sums(RowSweep sweep, const float* part_sums, T* sums) {
  wait_for_previous_kernels();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kFinishWide + threadIdx.x;
  const double sum = sum_parts(sweep.parts, [&](int64_t part) {
    return c < sweep.channels ? static_cast<double>(part_sums[part * sweep.channels + c]) : 0.0;
  });
  if (threadIdx.y == 0 && c < sweep.channels) put(static_cast<float>(sum), sums[c]);
}

}  // namespace

cudaError_t launch_add_bias(const Matrix& shape, void* y, const void* bias, DType bias_dtype, bool relu,
                            cudaStream_t stream) {
  const int64_t count = shape.elements();
  if (count == 0) return cudaSuccess;
  return with_storage(shape.dtype, [&](auto of_y) {
    using Y = decltype(of_y);
    return with_storage(bias_dtype, [&](auto of_bias) {
      using B = decltype(of_bias);
      return launch(add_bias<Y, B>, blocks_for(count), dim3(kThreads), stream, static_cast<Y*>(y),
                    static_cast<const B*>(bias), count, shape.columns, shape.step, relu);
    });
  });
}

int64_t column_sums_workspace(const Matrix& shape) {
  return RowSweep(shape.rows, shape.columns).parts * shape.columns * static_cast<int64_t>(sizeof(float));
}

/// Sums of y, or of y * factors.
static cudaError_t launch_sums(const Matrix& shape, const void* y, const void* factors, void* sums,
                               DType sums_dtype, void* workspace, cudaStream_t stream) {
  if (shape.rows * shape.columns == 0) return cudaSuccess;
  const RowSweep sweep(shape.rows, shape.columns);
  auto* part_sums = static_cast<float*>(workspace);
  const cudaError_t status = with_storage(shape.dtype, [&](auto of_y) {
    using Y = decltype(of_y);
    return launch(sum_part<Y>, sweep.grid(), sweep.block(), stream, sweep, shape.step,
                  static_cast<const Y*>(y), static_cast<const Y*>(factors), part_sums);
  });
  if (status != cudaSuccess) return status;
  return with_storage(sums_dtype, [&](auto of_sums) {
    using S = decltype(of_sums);
    return launch(finish_sums<S>, finish_grid(sweep.channels), finish_block(), stream, sweep, part_sums,
                  static_cast<S*>(sums));
  });
}

cudaError_t launch_column_sums(const Matrix& shape, const void* y, void* sums, DType sums_dtype,
                               void* workspace, cudaStream_t stream) {
  return launch_sums(shape, y, nullptr, sums, sums_dtype, workspace, stream);
}

cudaError_t launch_column_products(const Matrix& shape, const void* y, const void* x, float* sums,
                                   void* workspace, cudaStream_t stream) {
  return launch_sums(shape, y, x, sums, DType::f32, workspace, stream);
}

cudaError_t launch_scale_columns(const Matrix& shape, const void* x, const float* factors, void* y,
                                 cudaStream_t stream) {
  const int64_t count = shape.rows * shape.columns;
  return with_storage(shape.dtype, [&](auto element) {
    using T = decltype(element);
    return launch(scale_columns<T>, blocks_for(count), dim3(kThreads), stream, static_cast<const T*>(x),
                  factors, static_cast<T*>(y), count, shape.columns);
  });
}

}  // namespace trainer::cuda
