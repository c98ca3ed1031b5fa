// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>
#include "tests/catch.h"

#include "tests/cuda_standin/refusals.h"
#include "tests/cuda_standin/streams.h"

namespace trainer::standin {

/// A stream, memory of both kinds and events, gone with the object.
struct Surroundings {
  Surroundings() {
    forget_refusal();
    Streams::all().set_order(Order::late);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(&device, kBytes);
    cudaHostAlloc(&pinned, kBytes, cudaHostAllocDefault);
    for (cudaEvent_t& event : events) cudaEventCreate(&event);
  }
  ~Surroundings() {
    forget_refusal();
    for (cudaEvent_t event : events) cudaEventDestroy(event);
    cudaStreamSynchronize(stream);
    cudaFree(device);
    cudaFreeHost(pinned);
    cudaStreamDestroy(stream);
  }
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;

  cudaError_t copy(const void* host, size_t bytes = kBytes) const {
    return cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream);
  }
  /// The result of a capture of `work`.
  cudaError_t captured(const std::function<void()>& work) const {
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    work();
    cudaGraph_t graph = nullptr;
    const cudaError_t status = cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    return status;
  }

  static constexpr size_t kBytes = 4096;
  cudaStream_t stream = nullptr;
  void *device = nullptr, *pinned = nullptr;
  cudaEvent_t events[2]{};
};

inline void expect_refusal(const std::string& words) {
  INFO(last_refusal());
  CHECK(last_refusal().find(words) != std::string::npos);
}

}  // namespace trainer::standin
