// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>

#include "core/engine/communicator.h"

namespace trainer::cuda {

/// Sums of numbers in the memory of all ranks' GPUs, beside the work of a stream. Every rank begins the same
/// ones in the same order and gets bitwise identical results. Both calls only enqueue, and may be captured.
class Communication {
 public:
  virtual ~Communication() = default;
  /// Every rank calls it at once, before anything else. Throws Error (exit 69) if there is no NCCL, or it
  /// does not join the ranks.
  virtual void join() = 0;
  /// Once the stream has come here, the numbers are added up in place. Nobody reads them before finish().
  virtual void start(int64_t sum, std::span<const std::span<float>> numbers) = 0;
  /// Lets the stream go on when the sum of that name is there.
  virtual void finish(int64_t sum) = 0;

  virtual const Communicator& ranks() const = 0;
};

/// By NCCL, on a stream of its own. `ranks` passes NCCL's id on, and outlives this.
std::unique_ptr<Communication> make_nccl_communication(Communicator& ranks, cudaStream_t stream);

}  // namespace trainer::cuda
