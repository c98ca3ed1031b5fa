// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/metrics/metrics.h"

namespace trainer {

/// The contents of a run's metrics.jsonl so far.
struct RunHistory {
  std::vector<MetricsRecord> training, validation, guard;  ///< in the order of the file
  std::vector<int64_t> unreadable;                         ///< lines of the file without a record, from 1 on
};

/// Reads the file, which a process may be writing: an incomplete last line is left out. Empty if there is
/// no file. Throws Error (exit 74) if it cannot be read.
RunHistory read_history(const std::filesystem::path& directory);

/// The steps after which processes resumed the run, ascending, as its log.txt says. Throws Error (exit 74).
std::vector<int64_t> read_resumes(const std::filesystem::path& directory);

}  // namespace trainer
