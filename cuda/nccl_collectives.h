// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "core/engine/collectives.h"
#include "core/engine/process_group.h"

namespace trainer::cuda {

/// Collectives over the memory of all ranks' GPUs, beside the work of a stream. Both calls only enqueue, and
/// may be captured: started collectives follow what the stream holds so far, and waiting holds up the stream,
/// not the host.
class GpuCollectives : public Collectives {
 public:
  /// Every rank calls it, before anything else. Throws Error (exit 69) if there is no NCCL, or if it does not
  /// join the ranks.
  virtual void join() = 0;
  /// Throws Error (exit 76) if NCCL has found since that enqueued work has failed. Never waits.
  virtual void require_healthy() = 0;
  virtual ProcessGroup& group() const = 0;
};

/// By NCCL, on a stream of its own. `group` passes NCCL's id on, and outlives the result.
std::unique_ptr<GpuCollectives> make_nccl_collectives(ProcessGroup& group, cudaStream_t stream);

}  // namespace trainer::cuda
