// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// The least limits of this process's control groups, at every level up to the highest that it can see
/// (docs.kernel.org/admin-guide/cgroup-v2.html and cgroup-v1/). Nothing: no limit, or its files are absent or
/// damaged.
struct CgroupLimits {
  std::optional<int64_t> memory;  ///< bytes, above 0: memory.max and memory.high, or memory.limit_in_bytes
  std::optional<double> cpus;     ///< processor time in each unit of time, above 0: 0.5 is half of a core
  std::string cpus_file;          ///< that has it: cpu.max, or cpu.cfs_quota_us in version 1
};

/// Reads /proc/self/cgroup, /proc/self/mountinfo and the groups' files, all below `root`.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

/// Processes in this process's group, and below, that the kernel has killed because the group had no memory
/// left; 0 if its files are absent or damaged.
int64_t cgroup_memory_kills(const std::filesystem::path& root = "/");

/// The directories of a process's group and of the groups above it that are mounted, the lowest first.
/// `groups` is the text of /proc/self/cgroup, `mounts` that of /proc/self/mountinfo; `controller` is memory
/// or cpu in version 1, "" for version 2. A container may see its own group as the mount point, under another
/// name than `groups` has.
std::vector<std::string> cgroup_directories(std::string_view groups, std::string_view mounts,
                                            std::string_view controller);

/// "8589934592"; nothing for "max", 0, or anything else.
std::optional<int64_t> parse_cgroup_bytes(std::string_view text);
/// "50000 100000" is 0.5; nothing for "max 100000", or anything else.
std::optional<double> parse_cpu_max(std::string_view text);

}  // namespace trainer
