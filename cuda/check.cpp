// SPDX-License-Identifier: Apache-2.0
#include "cuda/check.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace trainer::cuda {

std::string describe(cudaError_t status) {
  return fmt::format("{} ({})", cudaGetErrorName(status), cudaGetErrorString(status));
}

void check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  const ExitCode code = status == cudaErrorMemoryAllocation ? ExitCode::out_of_memory : ExitCode::internal;
  throw Error(code, fmt::format("{}: CUDA returned {}", what, describe(status)));
}

void check(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ExitCode::internal,
              fmt::format("{}: cuBLASLt returned {} ({})", what, cublasLtGetStatusName(status),
                          cublasLtGetStatusString(status)));
}

}  // namespace trainer::cuda
