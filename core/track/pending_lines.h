// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/base/file.h"
#include "core/metrics/metrics.h"

namespace trainer {

/// A checksum of a line's split, step, event and loss.
int64_t short_form(const MetricsRecord& record);

/// The lines of a metrics.jsonl that a tracker does not have yet, while the file grows. A run that resumes or
/// rolls back cuts the file and writes steps again. A line with the results of one that was sent is not
/// pending, though its times differ: trackers cannot remove values.
class PendingLines {
 public:
  struct Line {
    MetricsRecord record;
    int64_t form = 0;  ///< its short form
  };

  /// `sent`: the short forms of all lines that were sent so far.
  PendingLines(std::filesystem::path path, std::function<std::unordered_set<int64_t>()> sent)
      : path_(std::move(path)), sent_(std::move(sent)) {}

  /// The next lines, at least one and at most so many that they have about `numbers` numbers; the same again
  /// until they are accepted. None if nothing is pending. Throws Error (exit 65, 74).
  std::vector<Line> next(size_t numbers);
  void accept() { offset_ = after_; }

 private:
  bool open();
  std::string_view read_block();

  std::filesystem::path path_;
  std::function<std::unordered_set<int64_t>()> sent_;
  FileDescriptor file_;  ///< open, so that the number of its inode is not given to another
  int64_t offset_ = 0, after_ = 0;
  std::unordered_set<int64_t> not_again_;  ///< sent, and not seen in the file since it was cut
  std::string block_;
};

}  // namespace trainer
