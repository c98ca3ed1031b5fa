// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/check.h"
#include "cuda/fastest.h"

namespace trainer::cuda {

using Event = Owned<cudaEvent_t, cudaEventDestroy>;

/// The least time that work enqueued by `run()` takes the GPU, in milliseconds, after a run that
/// does not count.
template <class Run>
float milliseconds(cudaStream_t stream, Run run) {
  constexpr float kEnough = 1;
  const auto event = [] {
    return make<Event>("making an event", [](cudaEvent_t* made) { return cudaEventCreate(made); });
  };
  const Event begin = event(), end = event();
  return least_time(kEnough, [&](int runs) {
    check(cudaEventRecord(begin.get(), stream), "timing");
    for (int i = 0; i < runs; ++i) run();
    check(cudaEventRecord(end.get(), stream), "timing");
    check(cudaEventSynchronize(end.get()), "timing");
    float time = 0;
    check(cudaEventElapsedTime(&time, begin.get(), end.get()), "timing");
    return time;
  });
}

using DeviceMemory = Owned<void*, cudaFree>;

/// Device memory of arbitrary content, for timing code that reads it.
inline DeviceMemory scratch_memory(int64_t bytes) {
  return make<DeviceMemory>(
      "taking GPU memory to time with", [](void** made, size_t size) { return cudaMalloc(made, size); },
      static_cast<size_t>(std::max<int64_t>(bytes, 1)));
}

}  // namespace trainer::cuda
