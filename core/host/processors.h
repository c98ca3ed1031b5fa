// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace trainer {

/// Linux numbers at most this many processors.
constexpr int64_t kMostProcessors = 8192;

/// Numbers of processors as Linux writes them, "0-3,8": rising, below kMostProcessors. Nothing for anything
/// else.
std::optional<std::vector<int64_t>> parse_processor_list(std::string_view text);

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

}  // namespace trainer
