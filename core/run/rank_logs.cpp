// SPDX-License-Identifier: Apache-2.0
#include "core/run/rank_logs.h"

#include <fcntl.h>

#include "core/base/error.h"
#include "core/base/regular_file.h"

namespace trainer {

void RankLogs::add(int64_t rank, const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (kept_.size() < kMostKept) kept_.emplace_back(rank, line);
}

void RankLogs::open(const std::filesystem::path& run) {
  folder_ = run / "ranks";
  std::error_code failed;
  std::filesystem::create_directory(folder_, failed);
}

void RankLogs::write() {
  if (folder_.empty()) return;
  std::vector<std::pair<int64_t, std::string>> come;
  {
    const std::lock_guard lock(mutex_);
    come.swap(kept_);
  }
  for (const auto& [rank, line] : come) {
    if (!files_.contains(rank)) {
      try {
        files_[rank] = open_regular(folder_ / (std::to_string(rank) + ".log"), O_WRONLY | O_CREAT | O_APPEND,
                                    Links::refuse);
      } catch (const Error&) {
        files_[rank] = FileDescriptor();
      }
    }
    if (files_[rank].get() >= 0 && write_all(files_[rank].get(), line) != 0) files_[rank].reset();
  }
}

}  // namespace trainer
