// SPDX-License-Identifier: Apache-2.0
#include "core/train/unreadable_list.h"

#include <fmt/core.h>

#include <sstream>

#include "core/base/file.h"
#include "core/storage/atomic_file.h"

namespace trainer {

/// A list of an earlier run in the same directory is not this one's.
UnreadableList::UnreadableList(std::filesystem::path file, Log& log, bool goes_on)
    : file_(std::move(file)), log_(log) {
  std::error_code ignored;
  if (!goes_on && !file_.empty()) std::filesystem::remove(file_, ignored);
  std::istringstream lines(read_text(file_).value_or(""));
  for (std::string line; std::getline(lines, line);) lines_.insert(line);
}

bool UnreadableList::report() {
  bool is_any = false, is_longer = false;
  for (const auto& [split, source] : sources_) {
    for (const UnreadableSample& sample : source->take_unreadable()) {
      const auto [line, is_new] = lines_.insert(sample.name + ": " + sample.reason);
      if (is_new) log_.warn(*line + "; using the next readable sample instead");
      is_any = true;
      is_longer = is_longer || is_new;
    }
  }
  if (is_longer || is_behind_) write();
  return is_any;
}

void UnreadableList::write() {
  if (file_.empty()) return;
  std::string text;
  for (const std::string& line : lines_) text += line + "\n";
  try {
    write_atomically(file_, text);
    is_behind_ = false;
  } catch (const Error& problem) {
    if (!is_behind_) log_.warn(fmt::format("{}; will retry", problem.what()));
    is_behind_ = true;
  }
}

std::map<std::string, std::vector<int64_t>> UnreadableList::numbers() const {
  std::map<std::string, std::vector<int64_t>> all;
  for (const auto& [split, source] : sources_) {
    if (std::vector<int64_t> samples = source->unreadable(); !samples.empty())
      all[split] = std::move(samples);
  }
  return all;
}

}  // namespace trainer
