// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "tests/cuda_standin/runtime.h"

// Streams, events, captures and graphs of CUDA's runtime.

using namespace trainer::standin;  // NOLINT(google-build-using-namespace): what follows is C's

namespace {

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

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return uncaptured_call("cudaStreamCreateWithFlags", [&] {
    *stream = Streams::all().create();
    return cudaGetDevice(&(*stream)->device);
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
