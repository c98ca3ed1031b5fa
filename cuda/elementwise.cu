// SPDX-License-Identifier: Apache-2.0
#include "cuda/elementwise.h"

#include "core/base/math.h"
#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/parameters.h"
#include "cuda/storage.h"

namespace trainer::cuda {
namespace {

/// dx = dy * f'(saved), as a function of two elements.
template <class F>
struct Gradient {
  F f;
  TRAINER_HD float operator()(float dy, float saved) const { return f.gradient(saved, dy); }
};

struct Add {
  static __device__ Add of(const TensorPointers&) { return {}; }
  TRAINER_HD float operator()(float a, float b) const { return a + b; }
};

struct AddRelu {
  float ceiling;
  TRAINER_HD float operator()(float a, float b) const { return math::clamp(a + b, 0.0f, ceiling); }
};

struct Mul {
  TRAINER_HD float operator()(float a, float b) const { return a * b; }
};

struct LerpIn {
  float share, scale;
  static __device__ LerpIn of(const TensorPointers& tensors) { return {tensors.share, tensors.scale}; }
  TRAINER_HD float operator()(float old, float fresh) const { return old + share * (scale * fresh - old); }
};

/// The same unless *skip is not 0, which is read once.
template <class T>
__global__ void __launch_bounds__(kThreads)
    lerp_unless(LerpIn f, const float* skip, int64_t count, T* y, const T* old, const T* fresh) {
  wait_for_previous_kernels();
  const bool skips = *skip != 0;
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    const Octet before = load(old + i, count - i);
    store(skips ? before : each(f, before, load(fresh + i, count - i)), count - i, y + i);
  }
}

/// y = f(x, other) of many tensors, or x if *skip is not 0; skip may be nullptr.
template <class F, class T>
__global__ void __launch_bounds__(kThreads)
    combine_all(const Table<TensorPointers> __grid_constant__ table, const float* skip) {
  wait_for_previous_kernels();
  const Share share = share_of_block(table);
  const F f = F::of(table.of[share.item]);
  const auto *old = static_cast<const T*>(table.of[share.item].x),
             *fresh = static_cast<const T*>(table.of[share.item].other);
  auto* y = static_cast<T*>(table.of[share.item].y);
  const bool skips = skip != nullptr && *skip != 0;
  for (int64_t i = share.begin + threadIdx.x * Octet::kSize; i < share.end; i += kThreads * Octet::kSize) {
    const int64_t left = share.end - i;
    const Octet before = load(old + i, left);
    store(skips ? before : each(f, before, load(fresh + i, left)), left, y + i);
  }
}

/// y[i] = f(x[i]...), i < count. Not __restrict__: y may be one of the x.
template <class F, class T, class... X>
__global__ void each_element(F f, int64_t count, T* y, const X*... x) {
  wait_for_previous_kernels();
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    store(each(f, load(x + i, count - i)...), count - i, y + i);
  }
}

template <class F, class T, class... X>
cudaError_t launch_each(F f, int64_t count, cudaStream_t stream, T* y, const X*... x) {
  if (count == 0) return cudaSuccess;
  return launch(each_element<F, T, X...>, blocks_for(count), dim3(kThreads), stream, f, count, y, x...);
}

/// The same if all tensors are of one type, known by name.
template <class F, class... X>
cudaError_t launch_stored(F f, DType dtype, int64_t count, cudaStream_t stream, void* y, const X*... x) {
  return with_storage(dtype, [=](auto type) {
    using T = decltype(type);
    return launch_each(f, count, stream, static_cast<T*>(y), static_cast<const T*>(x)...);
  });
}

template <class F>
cudaError_t launch_combine_all(const float* skip, DType dtype, std::span<const TensorPointers> tensors,
                               cudaStream_t stream) {
  return with_storage(dtype, [=](auto type) {
    return for_each_table(tensors, [=](const Table<TensorPointers>& table, dim3 blocks, size_t, int64_t) {
      return launch(combine_all<F, decltype(type)>, blocks, dim3(kThreads), stream, table, skip);
    });
  });
}

}  // namespace

cudaError_t launch_unary(const elementwise::Function& function, DType dtype, const void* x, void* y,
                         int64_t count, cudaStream_t stream) {
  return std::visit([=](auto f) { return launch_stored(f, dtype, count, stream, y, x); }, function);
}

cudaError_t launch_unary_backward(const elementwise::Function& function, DType dtype, const void* dy,
                                  const void* saved, void* dx, int64_t count, cudaStream_t stream) {
  auto run = [=](auto f) {
    return launch_stored(Gradient<decltype(f)>{f}, dtype, count, stream, dx, dy, saved);
  };
  return std::visit(run, function);
}

cudaError_t launch_add(DType dtype, const void* a, const void* b, void* y, int64_t count,
                       cudaStream_t stream) {
  return launch_stored(Add{}, dtype, count, stream, y, a, b);
}

cudaError_t launch_add_relu(float ceiling, DType dtype, const void* a, const void* b, void* y, int64_t count,
                            cudaStream_t stream) {
  return launch_stored(AddRelu{ceiling}, dtype, count, stream, y, a, b);
}

cudaError_t launch_mul(DType dtype, const void* a, const void* b, void* y, int64_t count,
                       cudaStream_t stream) {
  return launch_stored(Mul{}, dtype, count, stream, y, a, b);
}

cudaError_t launch_lerp(float share, float scale, const float* skip, DType dtype, const void* old,
                        const void* fresh, void* y, int64_t count, cudaStream_t stream) {
  const LerpIn f{share, scale};
  if (skip == nullptr) return launch_stored(f, dtype, count, stream, y, old, fresh);
  return with_storage(dtype, [=](auto type) {
    using T = decltype(type);
    return launch(lerp_unless<T>, blocks_for(count), dim3(kThreads), stream, f, skip, count,
                  static_cast<T*>(y), static_cast<const T*>(old), static_cast<const T*>(fresh));
  });
}

cudaError_t launch_add_all(DType dtype, std::span<const TensorPointers> tensors, cudaStream_t stream) {
  return launch_combine_all<Add>(nullptr, dtype, tensors, stream);
}

cudaError_t launch_lerp_all(const float* skip, DType dtype, std::span<const TensorPointers> tensors,
                            cudaStream_t stream) {
  return launch_combine_all<LerpIn>(skip, dtype, tensors, stream);
}

}  // namespace trainer::cuda
