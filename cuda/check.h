// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

namespace trainer::cuda {

/// Throws Error (exit 70) unless the call, or the launch before it, succeeded; `what` is an operation's name
/// or a description.
void check(cudaError_t status, std::string_view what);
void check(cublasStatus_t status, std::string_view what);

/// "cudaErrorNoDevice (no CUDA-capable device is detected)"
std::string describe(cudaError_t status);

// Handles of CUDA and cuBLASLt, released by their last owner. A failure to release cannot be reported:
// it is an earlier error of the device, which the next checked call reports.
template <auto destroy>
struct Destroy {
  template <class Object>
  void operator()(Object* object) const {
    static_cast<void>(destroy(object));
  }
};
template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<destroy>>;

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using BlasHandle = Owned<cublasLtHandle_t, cublasLtDestroy>;
using MatmulDescriptor = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using MatrixLayout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using MatmulPreference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// Calls create(&handle, …) and owns the result.
template <class Owner, class Create, class... Arguments>
Owner make(std::string_view what, Create create, Arguments... arguments) {
  typename Owner::pointer handle = nullptr;
  check(create(&handle, arguments...), what);
  return Owner(handle);
}

}  // namespace trainer::cuda
