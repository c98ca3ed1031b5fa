// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.h"

namespace trainer {

/// What the other ranks say, in files of rank 0's run: ranks/1.log and so on. A full disk costs these lines,
/// not the run. Any thread may call it.
class RankLogs {
 public:
  /// Before the directory is known, some lines are kept.
  void add(int64_t rank, const std::string& line);
  /// From now on lines are appended below this directory of a run.
  void open(const std::filesystem::path& run);

 private:
  void write(int64_t rank, const std::string& line);

  static constexpr size_t kMostKept = 10'000;
  std::mutex mutex_;
  std::filesystem::path folder_;
  std::vector<std::pair<int64_t, std::string>> kept_;
  std::map<int64_t, FileDescriptor> files_;
};

}  // namespace trainer
