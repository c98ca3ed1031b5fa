// SPDX-License-Identifier: Apache-2.0
#include "core/run/rank_logs.h"

#include <fcntl.h>

#include "core/base/error.h"
#include "core/base/regular_file.h"

namespace trainer {

void RankLogs::add(int64_t rank, const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (!folder_.empty()) return write(rank, line);
  if (kept_.size() < kMostKept) kept_.emplace_back(rank, line);
}

void RankLogs::open(const std::filesystem::path& run) {
  const std::lock_guard lock(mutex_);
  folder_ = run / "ranks";
  std::error_code failed;
  std::filesystem::create_directory(folder_, failed);
  for (const auto& [rank, line] : kept_) write(rank, line);
  kept_.clear();
}

void RankLogs::write(int64_t rank, const std::string& line) {
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

}  // namespace trainer
