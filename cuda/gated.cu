// SPDX-License-Identifier: Apache-2.0
#include "cuda/gated.h"

#include "core/graph/ops/gated.h"
#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/storage.h"

namespace trainer::cuda {
namespace {

// Not __restrict__: an output may be an input. A thread fetches its octets of all inputs before it uses one.

template <class G, class At, class T = typename At::T>
__global__ void __launch_bounds__(kThreads) open_gate(G g, int64_t count, const T* gate, const T* x, T* y) {
  wait_for_previous_kernels();
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    const int64_t left = count - i;
    const Stored<T> of_gate = At::fetch(gate + i, left), of_x = At::fetch(x + i, left);
    At::store(each(g, to_floats(of_gate), to_floats(of_x)), left, y + i);
  }
}

/// dx may be nullptr.
template <class G, class At, class T = typename At::T>
__global__ void __launch_bounds__(kThreads)
    differentiate_gate(G g, int64_t count, const T* dy, const T* gate, const T* x, T* dgate, T* dx) {
  wait_for_previous_kernels();
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    const int64_t left = count - i;
    const Stored<T> of_dy = At::fetch(dy + i, left), of_gate = At::fetch(gate + i, left),
                    of_x = At::fetch(x + i, left);
    const Octet down = to_floats(of_dy), open = to_floats(of_gate), value = to_floats(of_x);
    Octet to_gate, to_x;
#pragma unroll
    for (int e = 0; e < Octet::kSize; ++e) {
      g.gradient(down.v[e], open.v[e], value.v[e], to_gate.v[e], to_x.v[e]);
    }
    At::store(to_gate, left, dgate + i);
    if (dx != nullptr) At::store(to_x, left, dx + i);
  }
}

}  // namespace

cudaError_t launch_gated(const elementwise::Function& function, DType dtype, const void* gate, const void* x,
                         void* y, int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return with_octets(dtype, has_whole_octets(count, gate, x, y), [=, &function](auto octets) {
    using At = decltype(octets);
    using T = typename At::T;
    auto run = [=](auto f) {
      using G = elementwise::Gate<decltype(f)>;
      return launch(open_gate<G, At>, blocks_for(count), dim3(kThreads), stream, G{f}, count,
                    static_cast<const T*>(gate), static_cast<const T*>(x), static_cast<T*>(y));
    };
    return std::visit(run, function);
  });
}

cudaError_t launch_gated_backward(const elementwise::Function& function, DType dtype, const void* dy,
                                  const void* gate, const void* x, void* dgate, void* dx, int64_t count,
                                  cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return with_octets(dtype, has_whole_octets(count, dy, gate, x, dgate, dx), [=, &function](auto octets) {
    using At = decltype(octets);
    using T = typename At::T;
    auto run = [=](auto f) {
      using G = elementwise::Gate<decltype(f)>;
      return launch(differentiate_gate<G, At>, blocks_for(count), dim3(kThreads), stream, G{f}, count,
                    static_cast<const T*>(dy), static_cast<const T*>(gate), static_cast<const T*>(x),
                    static_cast<T*>(dgate), static_cast<T*>(dx));
    };
    return std::visit(run, function);
  });
}

}  // namespace trainer::cuda
