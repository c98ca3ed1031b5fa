// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>

#include "core/engine/device.h"
#include "cuda/check.h"

namespace trainer::cuda {

using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphInstance = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

/// The work on one stream: events in its order, copies to the GPU beside it, and captured CUDA graphs. Device
/// documents each function.
class Timeline {
 public:
  explicit Timeline(cudaStream_t stream);

  int64_t record_event();
  bool query(int64_t event);
  void synchronize(int64_t event);
  void copy_to_device_async(std::span<const HostCopy> copies, int64_t after);
  std::unique_ptr<Stopwatch> make_stopwatch(size_t marks) const;
  std::unique_ptr<Kernel> capture_graph(const std::function<void()>& work, const Device::Warn& warn) const;

 private:
  std::unique_ptr<Kernel> capture(const std::function<void()>& work) const;
  /// CUDA's event for this one or, if that has been recorded again, for the oldest later one.
  cudaEvent_t event_of(int64_t event) const;

  /// A few steps' worth; older events are taken to be complete with the oldest of these.
  static constexpr int64_t kEvents = 64;
  cudaStream_t stream_;
  Stream copying_;
  Event copied_;
  std::array<Event, kEvents> events_;
  int64_t last_ = 0;      ///< event given out last
  int64_t complete_ = 0;  ///< newest event known to be complete
};

}  // namespace trainer::cuda
