// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/host/limits.h"

namespace trainer {

/// What makes this machine slower or smaller than it could be for a run, and the command or setting that
/// mends it.
struct Finding {
  std::string text, mend;
  double cost = 0;  ///< share of the speed that it costs, 0 to 1; 0 if that is not known
};

/// Findings about processors and limits, from files below `root`.
std::vector<Finding> machine_findings(const HostFacts& facts, const std::filesystem::path& root = "/");

/// Findings about ranks that exchange gradients through InfiniBand, from files below `root`.
std::vector<Finding> rank_findings(const HostFacts& facts, int64_t ranks,
                                   const std::filesystem::path& root = "/");

/// How fast a folder takes data: the seconds to write and sync as many bytes, and what is left on its disk.
struct FolderSpeed {
  double bytes = 0, seconds = 0, free_bytes = 0;
};
/// Writes and syncs a file without a name, which is gone at the end: `bytes`, or fewer if the disk has taken
/// `seconds` before. Throws Error (exit 74).
FolderSpeed measure_folder(const std::filesystem::path& folder, int64_t bytes = int64_t{64} << 20,
                           double seconds = 5);
std::vector<Finding> folder_findings(const std::filesystem::path& folder, const FolderSpeed& speed);

/// Those that cost most come first; the others keep their order.
void sort_worst_first(std::vector<Finding>& findings);

}  // namespace trainer
