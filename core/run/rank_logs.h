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
/// not the run.
class RankLogs {
 public:
  /// Any thread may call it. Does not wait for a file; while too many lines wait to be written, further ones
  /// are lost.
  void add(int64_t rank, const std::string& line);
  /// From now on write() appends below this directory of a run. For one thread, as write() is.
  void open(const std::filesystem::path& run);
  /// Writes what has come.
  void write();

 private:
  static constexpr size_t kMostKept = 10'000;
  std::mutex mutex_;
  std::vector<std::pair<int64_t, std::string>> kept_;
  std::filesystem::path folder_;
  std::map<int64_t, FileDescriptor> files_;
};

}  // namespace trainer
