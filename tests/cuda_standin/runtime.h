// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <mutex>
#include <string>

#include "tests/cuda_standin/refusals.h"
#include "tests/cuda_standin/streams.h"

namespace trainer::standin {

/// Held by each call of every library: a program calls them from several threads.
std::recursive_mutex& library_mutex();

/// Whether this process is a fork of one that has used the libraries.
bool is_forked();

/// Notes the reason, and returns the status.
cudaError_t refused(cudaError_t status, const std::string& reason);
/// Keeps a failure for cudaGetLastError.
cudaError_t remember(cudaError_t status);

/// One call of the runtime: noted, alone, and refused in a forked process and after a kernel failed.
template <class Call>
cudaError_t runtime_call(const std::string& text, Call call) {
  const std::lock_guard lock(library_mutex());
  log_call(text);
  if (is_forked()) {
    refuse(text + " in a process that was forked after CUDA began");
    return remember(cudaErrorInitializationError);
  }
  if (is_broken()) return remember(cudaErrorLaunchFailure);
  const cudaError_t status = call();
  return remember(status == cudaSuccess && is_broken() ? cudaErrorLaunchFailure : status);
}

/// For calls that a GPU does not take while this thread captures a stream: the capture is lost.
template <class Call>
cudaError_t uncaptured_call(const std::string& text, Call call) {
  return runtime_call(text, [&] {
    if (!Streams::all().is_capturing()) return call();
    Streams::all().invalidate_captures();
    refuse(text + " while a stream is captured");
    return cudaErrorStreamCaptureUnsupported;
  });
}

/// Refuses calls that the stream may not take now.
cudaError_t enqueue(cudaStream_t stream, Item item);
/// Number of kernels and copies that streams have taken so far.
int64_t enqueued();
/// Takes the memory of the kernels' code, as the first launch of a kernel does.
cudaError_t load_modules();
/// Number of instantiated graphs that hold collectives.
int64_t& collective_graphs();
/// Enqueues a library's computation: its ranges are device memory, and must still be when it runs.
cudaError_t enqueue_on_device(cudaStream_t stream, Item item);

}  // namespace trainer::standin
