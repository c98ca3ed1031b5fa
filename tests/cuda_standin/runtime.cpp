// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_standin/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "tests/cuda_emulation/device.h"
#include "tests/cuda_emulation/faults.h"
#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/scheduler.h"

// Every call of CUDA's runtime, and the GPU that it describes. Calls that a GPU refuses are refused with the
// same status; calls that it would silently execute wrongly are refused too.

namespace trainer::standin {
namespace {

/// A second GPU shows whether calls go to the chosen one.
/// TRAINER_STANDIN_DEVICES, as a launcher that shows each rank one GPU.
int devices() {
  static const char* given = std::getenv("TRAINER_STANDIN_DEVICES");
  return given == nullptr ? 8 : std::stoi(given);
}

cudaError_t last_error = cudaSuccess;
int64_t enqueued_so_far = 0;
thread_local int current_device = 0;

bool are_allocated(const std::vector<Range>& ranges) {
  return std::all_of(ranges.begin(), ranges.end(),
                     [](const Range& range) { return emulation::is_allocated(range.begin, range.bytes); });
}

/// Reasons against enqueuing anything on the stream.
cudaError_t admit(cudaStream_t stream, const std::string& name) {
  if (stream == nullptr && Streams::all().is_capturing()) {
    Streams::all().invalidate_captures();
    return refused(cudaErrorStreamCaptureImplicit, name + " on the legacy stream while another is captured");
  }
  if (stream != nullptr && stream->device != current_device)
    return refused(cudaErrorInvalidResourceHandle,
                   fmt::format("{} on a stream of GPU {} by a thread that uses GPU {}", name, stream->device,
                               current_device));
  if (stream != nullptr && stream->has_unpinned_copy)
    return refused(
        cudaErrorInvalidValue,
        name + " behind an asynchronous copy of memory that is not pinned: wait for the copy first");
  return cudaSuccess;
}

}  // namespace

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex only;
  return only;
}

bool is_forked() {
  static const pid_t first = ::getpid();
  return first != ::getpid();
}

cudaError_t refused(cudaError_t status, const std::string& reason) {
  refuse(reason);
  return status;
}

cudaError_t remember(cudaError_t status) {
  if (status != cudaSuccess && status != cudaErrorNotReady) last_error = status;
  return status;
}

cudaError_t enqueue(cudaStream_t stream, Item item) {
  const cudaError_t status = admit(stream, item.name);
  if (status != cudaSuccess) return status;
  ++enqueued_so_far;
  Streams::all().enqueue(stream, std::move(item));
  return status;
}

int64_t enqueued() {
  return enqueued_so_far;
}

cudaError_t enqueue_on_device(cudaStream_t stream, Item item) {
  item.work = [work = std::move(item.work), name = item.name, ranges = item.ranges] {
    if (!are_allocated(ranges)) break_device(name + " works on device memory that is not allocated");
    if (!is_broken()) work();
  };
  return enqueue(stream, std::move(item));
}

}  // namespace trainer::standin

namespace trainer::emulation {

// The emulation's own tests run kernels on the null stream and look at the faults themselves.
cudaError_t launch_grid(cudaStream_t stream, const Grid& grid, dim3 blocks, dim3 threads) {
  const std::shared_ptr<const void> owner(grid.call, grid.destroy);
  return standin::runtime_call(fmt::format("a kernel of {}x{}x{} blocks", blocks.x, blocks.y, blocks.z), [&] {
    if (!is_legal(blocks, threads)) {
      standin::refuse(fmt::format("a grid of {}x{}x{} blocks of {}x{}x{} threads", blocks.x, blocks.y,
                                  blocks.z, threads.x, threads.y, threads.z));
      return cudaErrorInvalidConfiguration;
    }
    if (const cudaError_t status = standin::load_modules(); status != cudaSuccess) return status;
    const auto run = [=, kept = owner] {
      run_grid(grid, blocks, threads);
      if (stream == nullptr) return;
      for (const Fault& fault : take_faults()) standin::break_device(fault.kind + ": " + fault.text);
    };
    return standin::enqueue(stream, {.name = "a kernel", .work = run});
  });
}

}  // namespace trainer::emulation

using namespace trainer::standin;  // NOLINT(google-build-using-namespace): what follows is C's

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  return runtime_call("cudaGetDeviceCount", [&] {
    *count = devices();
    return cudaSuccess;
  });
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices()) return remember(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return runtime_call("cudaGetDeviceProperties", [&] {
    if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
    *properties = {};
    std::strcpy(properties->name, device == 0 ? "Stand-in GPU" : "Second stand-in GPU");
    properties->major = TRAINER_STANDIN_CAPABILITY / 10;
    properties->minor = TRAINER_STANDIN_CAPABILITY % 10;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int room, int device) {
  std::strncpy(id, device == 0 ? "0000:1b:00.0" : "0000:1c:00.0", static_cast<size_t>(room));
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}
const char* cudaGetErrorName(cudaError_t status) {
  switch (status) {
#define TRAINER_NAME(code) \
  case code:               \
    return #code;
    TRAINER_NAME(cudaSuccess)
    TRAINER_NAME(cudaErrorInvalidValue)
    TRAINER_NAME(cudaErrorMemoryAllocation)
    TRAINER_NAME(cudaErrorInitializationError)
    TRAINER_NAME(cudaErrorInvalidConfiguration)
    TRAINER_NAME(cudaErrorInvalidDevice)
    TRAINER_NAME(cudaErrorInvalidResourceHandle)
    TRAINER_NAME(cudaErrorIllegalState)
    TRAINER_NAME(cudaErrorNotReady)
    TRAINER_NAME(cudaErrorLaunchFailure)
    TRAINER_NAME(cudaErrorStreamCaptureUnsupported)
    TRAINER_NAME(cudaErrorStreamCaptureInvalidated)
    TRAINER_NAME(cudaErrorStreamCaptureImplicit)
    TRAINER_NAME(cudaErrorStreamCaptureIsolation)
#undef TRAINER_NAME
    default:
      return "an error of CUDA";
  }
}
const char* cudaGetErrorString(cudaError_t) {
  return last_refusal().c_str();
}
