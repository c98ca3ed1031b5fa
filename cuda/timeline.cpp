// SPDX-License-Identifier: Apache-2.0
#include "cuda/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/base/error.h"
#include "cuda/early_launch.h"

namespace trainer::cuda {
namespace {

Event make_event(unsigned flags) {
  return make<Event>("making an event", cudaEventCreateWithFlags, flags);
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "asking whether a stream is captured");
  return status != cudaStreamCaptureStatusNone;
}

/// Otherwise the next launch of a kernel would report it again.
void forget_last_error() {
  static_cast<void>(cudaGetLastError());
}

class EventStopwatch final : public Stopwatch {
 public:
  EventStopwatch(cudaStream_t stream, size_t marks) : stream_(stream) {
    for (size_t i = 0; i < marks; ++i) events_.push_back(make_event(cudaEventDefault));
  }

  /// Captured into a graph, the event becomes a node that records it at each replay.
  void mark(size_t i) override {
    const unsigned flags = is_capturing(stream_) ? cudaEventRecordExternal : cudaEventRecordDefault;
    check(cudaEventRecordWithFlags(events_[i].get(), stream_, flags), "recording an event");
  }

  double seconds(size_t i) const override {
    constexpr double kMilliseconds = 1e-3;
    float spent = 0;
    check(cudaEventElapsedTime(&spent, events_[i].get(), events_[i + 1].get()), "measuring time");
    return spent * kMilliseconds;
  }

 private:
  cudaStream_t stream_;
  std::vector<Event> events_;
};

class GraphKernel final : public Kernel {
 public:
  GraphKernel(cudaStream_t stream, GraphInstance instance)
      : stream_(stream), instance_(std::move(instance)) {}
  void run() override { check(cudaGraphLaunch(instance_.get(), stream_), "launching a captured step"); }

 private:
  cudaStream_t stream_;
  GraphInstance instance_;
};

}  // namespace

Timeline::Timeline(cudaStream_t stream)
    : stream_(stream),
      copying_(make<Stream>("making a stream", cudaStreamCreateWithFlags, unsigned{cudaStreamNonBlocking})),
      copied_(make_event(cudaEventDisableTiming)) {
  for (Event& event : events_) event = make_event(cudaEventDisableTiming | cudaEventBlockingSync);
}

cudaEvent_t Timeline::event_of(int64_t event) const {
  const int64_t kept = std::max(event, last_ - kEvents + 1);
  return events_[static_cast<size_t>(kept % kEvents)].get();
}

int64_t Timeline::record_event() {
  ++last_;
  check(cudaEventRecord(event_of(last_), stream_), "recording an event");
  return last_;
}

bool Timeline::query(int64_t event) {
  if (event <= complete_) return true;
  const cudaError_t status = cudaEventQuery(event_of(event));
  if (status == cudaErrorNotReady) return false;
  check(status, "the GPU's work");
  complete_ = event;
  return true;
}

void Timeline::synchronize(int64_t event) {
  // An event that blocks leaves the core to others, and wakes this thread some microseconds later.
  constexpr auto kSpin = std::chrono::microseconds(50);
  const auto begin = std::chrono::steady_clock::now();
  do {
    if (query(event)) return;
  } while (std::chrono::steady_clock::now() - begin < kSpin);
  check(cudaEventSynchronize(event_of(event)), "the GPU's work");
  complete_ = event;
}

void Timeline::copy_to_device_async(std::span<const HostCopy> copies, int64_t after) {
  constexpr const char* kWhat = "copying a batch to the GPU";
  if (after > complete_) check(cudaStreamWaitEvent(copying_.get(), event_of(after), 0), kWhat);
  for (const HostCopy& copy : copies) {
    check(cudaMemcpyAsync(copy.device, copy.host, static_cast<size_t>(copy.bytes), cudaMemcpyHostToDevice,
                          copying_.get()),
          kWhat);
  }
  check(cudaEventRecord(copied_.get(), copying_.get()), kWhat);
  check(cudaStreamWaitEvent(stream_, copied_.get(), 0), kWhat);
}

std::unique_ptr<Stopwatch> Timeline::make_stopwatch(size_t marks) const {
  return std::make_unique<EventStopwatch>(stream_, marks);
}

/// Early starts of kernels are newer than graphs, and fail first.
std::unique_ptr<Kernel> Timeline::capture_graph(const std::function<void()>& work,
                                                const Device::Warn& warn) const {
  try {
    return capture(work);
  } catch (const Error& problem) {
    if (!starts_early()) throw;
    set_starts_early(false);
    try {
      std::unique_ptr<Kernel> kernel = capture(work);
      warn(
          fmt::format("a step could not be captured with kernels that start early: {}; they start when those "
                      "before have ended, which is slower; TRAINER_PDL=0 leaves the attempt out",
                      problem.what()));
      return kernel;
    } catch (const Error&) {
      set_starts_early(true);
      throw;
    }
  }
}

std::unique_ptr<Kernel> Timeline::capture(const std::function<void()>& work) const {
  // Only this thread is restricted to calls that may be captured: loaders continue to allocate page-locked
  // memory.
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "beginning to capture a step");
  cudaGraph_t captured = nullptr;
  try {
    work();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream_, &captured));
    const Graph unfinished(captured);
    forget_last_error();
    throw;
  }
  const cudaError_t ended = cudaStreamEndCapture(stream_, &captured);
  const Graph graph(captured);
  cudaGraphExec_t instance = nullptr;
  const cudaError_t status = ended == cudaSuccess ? cudaGraphInstantiate(&instance, graph.get(), 0) : ended;
  if (status != cudaSuccess) forget_last_error();
  check(status, ended == cudaSuccess ? "instantiating a captured step" : "capturing a step");
  return std::make_unique<GraphKernel>(stream_, GraphInstance(instance));
}

}  // namespace trainer::cuda
