// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "cuda/early_launch.h"
#include "tests/cuda_standin/runtime.h"

// Streams, events, captures and graphs of CUDA's runtime.

using namespace trainer::standin;  // NOLINT(google-build-using-namespace): what follows is C's

namespace {

cudaError_t record(cudaEvent_t event, cudaStream_t stream, bool external) {
  static uint64_t number = 0;
  const bool captured = stream != nullptr && stream->capture != nullptr;
  if (captured && external) return enqueue(stream, {.name = "cudaEventRecordWithFlags", .event = event});
  event->is_captured = captured;
  if (captured) {
    *event = {.last = event->last,
              .is_timed = event->is_timed,
              .is_captured = true,
              .graph = stream->capture.get(),
              .captured_on = stream,
              .mark = ++stream->capture->marks};
    return enqueue(stream, {.name = "cudaEventRecord", .mark = event->mark});
  }
  event->last = std::make_shared<Record>(Record{.stream = stream, .number = ++number});
  return enqueue(stream, {.name = "cudaEventRecord", .record = event->last});
}

/// Whether nothing was captured on the event's stream after it.
bool is_last(const CUevent_st& event) {
  const std::vector<Item>& items = event.graph->items;
  const auto mark = std::ranges::find(items, event.mark, &Item::mark);
  return std::none_of(mark, items.end(), [&](const Item& item) {
    return item.mark != event.mark && item.branch == event.captured_on;
  });
}

/// A stream that waits for a captured event joins the capture. One that joins back waits for all of the
/// other's work.
cudaError_t join(cudaStream_t stream, const CUevent_st& event) {
  CUstream_st* other = event.captured_on;
  if (other == nullptr || other->capture == nullptr || other->capture.get() != event.graph)
    return refused(cudaErrorStreamCaptureIsolation,
                   "a stream waits for an event of a capture that has ended");
  if (stream->capture == nullptr) {
    stream->capture = other->capture;
    stream->capture_origin = other->capture_origin;
    stream->capturer = other->capturer;
    stream->is_capture_valid = true;
    event.graph->is_joined[stream] = false;
  }
  if (stream == stream->capture_origin && is_last(event)) event.graph->is_joined[other] = true;
  return enqueue(stream, {.name = "cudaStreamWaitEvent", .awaited_mark = event.mark});
}

/// A graph's events are recorded when it is launched. Its branches run on the streams that they were captured
/// on, so that they are as late or as early as other work there.
cudaError_t launch(const CUgraphExec_st& graph, cudaStream_t stream) {
  static uint64_t number = 0;
  std::map<uint64_t, std::shared_ptr<Record>> marks;
  for (Item item : graph.items) {
    CUstream_st* on = item.branch != nullptr ? item.branch : stream;
    if (item.mark != 0)
      item.record = marks[item.mark] = std::make_shared<Record>(Record{.stream = on, .number = ++number});
    if (item.awaited_mark != 0) item.awaited = marks.at(item.awaited_mark);
    const cudaError_t status =
        item.event != nullptr ? record(item.event, on, false) : enqueue(on, std::move(item));
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

bool has_collectives(const CUgraphExec_st& graph) {
  return std::ranges::any_of(graph.items, [](const Item& item) { return item.name.starts_with("nccl"); });
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

int64_t& trainer::standin::collective_graphs() {
  static int64_t alive = 0;
  return alive;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return uncaptured_call("cudaStreamCreateWithFlags", [&] {
    *stream = Streams::all().create();
    return cudaGetDevice(&(*stream)->device);
  });
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
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
    if (event->is_captured) return join(stream, *event);
    if (stream->capture != nullptr)
      return refused(cudaErrorStreamCaptureIsolation,
                     "a captured stream waits for an event outside of the capture");
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
    stream->capture = std::make_shared<CUgraph_st>();
    stream->capture_origin = stream;
    stream->capturer = std::this_thread::get_id();
    stream->is_capture_valid = true;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return runtime_call("cudaStreamEndCapture", [&] {
    *graph = nullptr;
    if (stream->capture == nullptr) return cudaErrorIllegalState;
    const auto captured = Streams::all().end_capture(stream);
    if (!stream->is_capture_valid) return cudaErrorStreamCaptureInvalidated;
    if (trainer::cuda::starts_early() && std::getenv("TRAINER_STANDIN_REFUSES_EARLY_STARTS") != nullptr)
      return refused(cudaErrorStreamCaptureUnsupported, "a capture of kernels that start early");
    for (const auto& [branch, is_joined] : captured->is_joined) {
      if (!is_joined)
        return refused(cudaErrorStreamCaptureUnjoined,
                       "a capture ends, and a stream that joined it is not waited for");
    }
    *graph = new CUgraph_st{.items = std::move(captured->items), .is_joined = {}};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* instance, cudaGraph_t graph, unsigned long long) {
  return uncaptured_call("cudaGraphInstantiate", [&] {
    *instance = new CUgraphExec_st{graph->items};
    collective_graphs() += has_collectives(**instance);
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
  collective_graphs() -= has_collectives(*instance);
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
    if (event->last == nullptr || event->last->done) return cudaSuccess;
    // However late work is, a program that asks long enough sees its end.
    static int in_vain = 0;
    constexpr int kPatience = 100;
    if (++in_vain % kPatience != 0) return cudaErrorNotReady;
    Streams::all().finish(*event->last);
    return cudaSuccess;
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
