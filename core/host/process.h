// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace trainer {

/// Bytes of this process in memory: now, and at most so far.
int64_t resident_bytes();
int64_t peak_resident_bytes();
/// From the kernel's record of when this process began, which has a resolution of 10 ms; 0 if there is
/// none.
double seconds_since_process_start();
/// Of a clock that is never set; only differences are meaningful.
double steady_seconds();
/// "" if it is unknown.
std::string host_name();
/// Cores on which this process may run, of those that `processes` like it share a host with. A launcher may
/// have bound each to cores of its own: then together they have no more than the host.
int64_t cores_of_process(int64_t processes);

}  // namespace trainer
