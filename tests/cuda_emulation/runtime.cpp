// SPDX-License-Identifier: Apache-2.0
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstring>

#include "tests/cuda_emulation/memory.h"

// The part of CUDA's runtime that our handlers call. Everything has happened when a call returns, so streams
// are nothing; libraries that only a GPU can run have handles that nobody makes.

using trainer::emulation::mark_written;

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = trainer::emulation::allocate_device(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  return trainer::emulation::free_device(memory) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memmove(to, from, bytes);
  mark_written(to, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  mark_written(to, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) {
  return "an error";
}
const char* cudaGetErrorString(cudaError_t) {
  return "of the emulation";
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusName(cublasStatus_t) {
  return "an error";
}
const char* cublasLtGetStatusString(cublasStatus_t) {
  return "of a library that is not emulated";
}
