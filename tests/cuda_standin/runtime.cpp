// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_standin/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/cuda_emulation/device.h"
#include "tests/cuda_emulation/faults.h"
#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/scheduler.h"

// CUDA's runtime, in streams of this process: the GPU's name and properties, streams, events and graphs. What
// a GPU refuses is refused as there; what it would do wrongly in silence is refused too.

namespace trainer::standin {
namespace {

cudaError_t last_error = cudaSuccess;

bool are_allocated(const std::vector<Range>& ranges) {
  return std::all_of(ranges.begin(), ranges.end(),
                     [](const Range& range) { return emulation::is_allocated(range.begin, range.bytes); });
}

cudaError_t refused(cudaError_t status, const std::string& reason) {
  refuse(reason);
  return status;
}

/// Reasons against enqueuing anything on the stream.
cudaError_t admit(cudaStream_t stream, const std::string& name) {
  if (stream == nullptr && Streams::all().is_capturing()) {
    Streams::all().invalidate_captures();
    return refused(cudaErrorStreamCaptureImplicit, name + " on the legacy stream while another is captured");
  }
  if (stream != nullptr && stream->has_unpinned_copy)
    return refused(
        cudaErrorInvalidValue,
        name + " behind an asynchronous copy of memory that is not pinned: wait for the copy first");
  return cudaSuccess;
}

cudaError_t record(cudaEvent_t event, cudaStream_t stream, bool external) {
  static uint64_t number = 0;
  const bool captured = stream != nullptr && stream->capture != nullptr;
  if (captured && external) return enqueue(stream, {.name = "cudaEventRecordWithFlags", .event = event});
  event->is_captured = captured;
  if (captured) return cudaSuccess;
  event->last = std::make_shared<Record>(Record{.stream = stream, .number = ++number});
  return enqueue(stream, {.name = "cudaEventRecord", .record = event->last});
}

/// A graph's events are recorded when it is launched.
cudaError_t launch(const CUgraphExec_st& graph, cudaStream_t stream) {
  for (Item item : graph.items) {
    const cudaError_t status =
        item.event != nullptr ? record(item.event, stream, false) : enqueue(stream, std::move(item));
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

/// Whether both were recorded, in this order, and are done.
cudaError_t comparable(const CUevent_st& begin, const CUevent_st& end) {
  if (begin.is_captured || end.is_captured)
    return refused(cudaErrorInvalidValue, "a time is asked of an event that was only captured");
  if (!begin.is_timed || !end.is_timed || !begin.last || !end.last) return cudaErrorInvalidResourceHandle;
  if (!begin.last->done || !end.last->done)
    return refused(cudaErrorNotReady, "a time is asked of an event that is not done, or is recorded again");
  if (begin.last->number > end.last->number)
    return refused(cudaErrorInvalidValue, "a time is asked of an event that was recorded again");
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

cudaError_t remember(cudaError_t status) {
  if (status != cudaSuccess && status != cudaErrorNotReady) last_error = status;
  return status;
}

cudaError_t enqueue(cudaStream_t stream, Item item) {
  const cudaError_t status = admit(stream, item.name);
  if (status == cudaSuccess) Streams::all().enqueue(stream, std::move(item));
  return status;
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
    *count = 1;
    return cudaSuccess;
  });
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : remember(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return runtime_call("cudaGetDeviceProperties", [&] {
    if (device != 0) return cudaErrorInvalidDevice;
    *properties = {};
    std::strcpy(properties->name, "Stand-in GPU");
    properties->major = 9;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int room, int) {
  std::strncpy(id, "0000:1b:00.0", static_cast<size_t>(room));
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return uncaptured_call("cudaStreamCreateWithFlags", [&] {
    *stream = Streams::all().create();
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return runtime_call("cudaStreamDestroy", [&] {
    Streams::all().destroy(stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return uncaptured_call("cudaStreamSynchronize", [&] {
    if (stream != nullptr) stream->has_unpinned_copy = false;
    Streams::all().finish(stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return runtime_call("cudaStreamWaitEvent", [&] {
    if (event->is_captured)
      return refused(cudaErrorStreamCaptureIsolation, "a stream waits for a captured event");
    if (event->last == nullptr) return cudaSuccess;  // as CUDA has it
    return enqueue(stream, {.name = "cudaStreamWaitEvent", .awaited = event->last});
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return runtime_call("cudaStreamIsCapturing", [&] {
    *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
              : stream->is_capture_valid ? cudaStreamCaptureStatusActive
                                         : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return runtime_call("cudaStreamBeginCapture", [&] {
    if (stream == nullptr)
      return refused(cudaErrorStreamCaptureUnsupported, "a capture of the legacy stream");
    stream->capture = std::make_unique<CUgraph_st>();
    stream->capturer = std::this_thread::get_id();
    stream->is_capture_valid = true;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return runtime_call("cudaStreamEndCapture", [&] {
    *graph = nullptr;
    if (stream->capture == nullptr) return cudaErrorIllegalState;
    const auto captured = std::move(stream->capture);
    if (!stream->is_capture_valid) return cudaErrorStreamCaptureInvalidated;
    *graph = new CUgraph_st{std::move(captured->items)};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* instance, cudaGraph_t graph, unsigned long long) {
  return uncaptured_call("cudaGraphInstantiate", [&] {
    *instance = new CUgraphExec_st{graph->items};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t stream) {
  return uncaptured_call("cudaGraphLaunch", [&] { return launch(*instance, stream); });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance) {
  delete instance;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st{.last = nullptr, .is_timed = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return runtime_call("cudaEventRecordWithFlags", [&] {
    const bool external = (flags & cudaEventRecordExternal) != 0;
    if (external && (stream == nullptr || stream->capture == nullptr))
      return refused(cudaErrorIllegalState, "cudaEventRecordExternal outside a capture");
    return record(event, stream, external);
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return uncaptured_call("cudaEventQuery", [&] {
    return event->last == nullptr || event->last->done ? cudaSuccess : cudaErrorNotReady;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return uncaptured_call("cudaEventSynchronize", [&] {
    if (event->last != nullptr) Streams::all().finish(*event->last);
    return cudaSuccess;
  });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return runtime_call("cudaEventElapsedTime", [&] {
    const cudaError_t status = comparable(*begin, *end);
    if (status == cudaSuccess)
      *milliseconds = static_cast<float>(1e3 * (end->last->seconds - begin->last->seconds));
    return status;
  });
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
