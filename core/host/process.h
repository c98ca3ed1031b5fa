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
/// Cores of one of `processes` on a host with `online` cores, if each may run on `allowed` of them. If they
/// have no more together than the host, a launcher has bound each to cores of its own; else they share them.
constexpr int64_t share_of_cores(int64_t allowed, int64_t online, int64_t processes) {
  const bool are_bound = allowed * processes <= online;
  return are_bound ? allowed : allowed < processes ? 1 : allowed / processes;
}
/// The same of this process and this host.
int64_t cores_of_process(int64_t processes);

}  // namespace trainer
