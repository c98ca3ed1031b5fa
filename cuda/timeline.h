// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>

#include "core/engine/backend.h"
#include "cuda/check.h"

namespace trainer::cuda {

using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphInstance = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

/// The order of the work on one stream: points in it, copies to the GPU beside it, and pieces of it that are
/// kept as CUDA graphs. What Backend says of each holds here.
class Timeline {
 public:
  explicit Timeline(cudaStream_t stream);

  int64_t record_event();
  bool query(int64_t event);
  void synchronize(int64_t event);
  void copy_to_device_async(std::span<const HostCopy> copies, int64_t after);
  std::unique_ptr<Stopwatch> make_stopwatch(size_t points) const;
  std::unique_ptr<Kernel> capture_graph(const std::function<void()>& work) const;

 private:
  /// The event of an event or, where that has been used again, of the oldest later one.
  cudaEvent_t event_of(int64_t event) const;

  /// A few steps' worth; older points are taken to have passed with the oldest of these.
  static constexpr int64_t kEvents = 64;
  cudaStream_t stream_;
  Stream copying_;
  Event copied_;
  std::array<Event, kEvents> events_;
  int64_t last_ = 0;    ///< event given out last
  int64_t passed_ = 0;  ///< newest event known to have passed
};

}  // namespace trainer::cuda
