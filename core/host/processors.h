// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// Linux numbers at most this many processors.
constexpr int64_t kMostProcessors = 8192;

/// Numbers of processors as Linux writes them, "0-3,8": rising, below kMostProcessors. Nothing for anything
/// else.
std::optional<std::vector<int64_t>> parse_processor_list(std::string_view text);

/// The same text again.
std::string processor_list_text(const std::vector<int64_t>& numbers);

/// Processors that run; empty if /sys below `root` does not say.
std::vector<int64_t> online_processors(const std::filesystem::path& root = "/");

/// Processors that this process may run on; empty if they are unknown. Where variables of OpenMP bind threads
/// (OMP_PROC_BIND, ...), this thread has a single processor: then those that the process had when it began.
std::vector<int64_t> allowed_processors();

/// Whether this thread has fewer processors than the process had when it began, since OpenMP has bound it: a
/// program started now would see no others.
bool is_bound_since_start();

/// Physical cores among these processors, by /sys below `root`: two hyperthreads of a core count once. A
/// processor whose file is absent or damaged is a core.
int64_t physical_cores(const std::vector<int64_t>& processors, const std::filesystem::path& root = "/");

/// The NUMA nodes that these processors are in, rising; empty if /sys below `root` does not say.
std::vector<int64_t> numa_nodes_of(const std::vector<int64_t>& processors,
                                   const std::filesystem::path& root = "/");

/// The NUMA nodes whose memory this process may have; empty if that is unknown.
std::vector<int64_t> allowed_memory_nodes(const std::filesystem::path& root = "/");

/// The processors for number `place` of `processes` that share these: whole cores, as many as the others
/// have, and of as few NUMA nodes as an even division allows. All of them if there is not a core for each.
std::vector<int64_t> share_of_processors(const std::vector<int64_t>& processors, int64_t place,
                                         int64_t processes, const std::filesystem::path& root = "/");

/// Restricts this thread, and those that it starts from now on, to its share of the processors that this
/// process may use, so that its memory is near. Does nothing on a machine with one NUMA node, and where a
/// launcher, a cgroup or OpenMP's variables have left it some processors only. Returns a warning if the
/// system binds it to others.
std::optional<std::string> bind_to_share(int64_t place, int64_t processes);

}  // namespace trainer
