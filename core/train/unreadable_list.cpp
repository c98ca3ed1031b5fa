// SPDX-License-Identifier: Apache-2.0
#include "core/train/unreadable_list.h"

#include "core/storage/atomic_file.h"

namespace trainer {

/// A list of an earlier run in the same directory is not this one's.
UnreadableList::UnreadableList(std::filesystem::path file, Log& log) : file_(std::move(file)), log_(log) {
  std::error_code ignored;
  std::filesystem::remove(file_, ignored);
}

void UnreadableList::report() {
  bool is_longer = false;
  for (const DataSource* source : sources_) {
    for (const UnreadableSample& sample : source->take_unreadable()) {
      const auto [line, is_new] = lines_.insert(sample.name + ": " + sample.reason);
      if (is_new) log_.warn(*line + "; the next readable sample takes its place");
      is_longer = is_longer || is_new;
    }
  }
  if (!is_longer) return;
  std::string text;
  for (const std::string& line : lines_) text += line + "\n";
  write_atomically(file_, text);
}

}  // namespace trainer
