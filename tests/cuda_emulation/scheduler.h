// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace trainer::emulation {

/// The order in which threads and blocks run: 0 as numbered, 1 backwards, otherwise at random from this seed.
void set_schedule(uint32_t seed);

/// " (block 0,0,0 thread 3,0,0)", or nothing between launches.
std::string running_thread();

/// The running thread, and since when its accesses are not ordered against the others'; for finding races.
struct Moment {
  uint32_t launch, block, epoch;  ///< counters that only grow: of launches, blocks and barriers
  uint16_t thread, warp, warp_epoch;
};
/// Whether a thread runs at all; otherwise host code does.
bool in_kernel();
/// Whether the running thread has called wait_for_previous_kernels.
bool has_waited();
Moment now();
/// The same warp's count of __syncwarp since the last barrier.
uint16_t warp_epoch(uint16_t warp);
/// Whether an address is on the running thread's stack.
bool on_stack(const void* address);
/// Whether it is in the kernel's arguments, which all threads share if the kernel does not copy them.
bool in_arguments(const void* address);

}  // namespace trainer::emulation
