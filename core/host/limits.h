// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/host/cgroup.h"
#include "core/host/slurm.h"

namespace trainer {

/// The names of limits that are the machine's own, in memory and in threads.
constexpr const char* kMachine = "machine";
constexpr const char* kCores = "cores";

/// How much a process may use, and what says so: "cgroup", "cpu.max", "affinity".
struct Limit {
  int64_t value = 0;
  std::string name;
};

/// All that limits this process. What cannot be read is no limit.
struct HostFacts {
  int64_t memory = INT64_MAX;  ///< bytes of the machine
  int64_t cores = 1;           ///< of the machine; a core with two hyperthreads counts once
  int64_t allowed_cores = 1;   ///< of them those that the process's affinity allows
  CgroupLimits cgroup = {};    ///< of a container, a pod, or a Slurm step
  SlurmLimits slurm = {};      ///< of the job, if the process is part of one
  /// Bytes below RLIMIT_AS and RLIMIT_DATA, less those that are reserved without being used.
  std::optional<int64_t> address_space = std::nullopt, data = std::nullopt;
  std::optional<int64_t> locked_memory = std::nullopt;  ///< bytes of RLIMIT_MEMLOCK; nothing: no limit
};

/// Reads them anew: affinity and limits of this process, and files below `root`.
HostFacts host_facts(const std::filesystem::path& root = "/");

/// Bytes that one of `processes` on this host may hold, what it holds now included: the least of the
/// machine's, the cgroup's, Slurm's and the process's own limits (ulimit -v, -d). The first three are shared
/// by the processes. Memory that others use is not subtracted: a plan must not depend on what else runs.
Limit memory_limit(int64_t processes, const HostFacts& facts = host_facts());

/// Threads that pay for this process, one of `processes` that were started on this host, at least 1: the
/// least of its physical cores, its cgroup's quota and Slurm's CPUs per task. Hyperthreads are used only if
/// the user asks for more threads.
Limit thread_limit(int64_t processes, const HostFacts& facts = host_facts());

/// The part of each of `processes` that this process is to start, which inherit what limits it.
Limit shared_by(int64_t processes, const Limit& all);

/// Cores of one of `processes` on a host with `online` cores, if each may run on `allowed` of them. If they
/// have no more together than the host, a launcher has bound each to cores of its own; else they share them.
constexpr int64_t share_of_cores(int64_t allowed, int64_t online, int64_t processes) {
  const bool are_bound = allowed <= online / processes;
  return are_bound ? allowed : std::max<int64_t>(1, allowed / processes);
}

/// "8.00 GiB (cgroup)"; without the name if that is empty.
std::string memory_text(const Limit& memory);

/// "8.00 GiB of memory (cgroup), 4 threads (cpu.max)"
std::string limits_text(const Limit& memory, const Limit& threads);

}  // namespace trainer
