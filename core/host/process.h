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
/// Seconds that processors have spent on the calling thread.
double thread_seconds();
/// "" if it is unknown.
std::string host_name();

}  // namespace trainer
