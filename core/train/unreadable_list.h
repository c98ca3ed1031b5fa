// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/data/source.h"
#include "core/host/log.h"

namespace trainer {

/// Names each unreadable sample once, in the log and in a file of its own, sorted. Sources and log outlive
/// it.
class UnreadableList {
 public:
  /// A resumed run keeps its earlier list.
  UnreadableList(std::filesystem::path file, Log& log, bool goes_on = false);

  /// Whose unreadable samples to list from now on.
  void watch(const DataSource& source) { sources_.push_back(&source); }

  /// Lists what was found since the last call. A file that cannot be written is tried again next time.
  void report();

  int64_t size() const { return static_cast<int64_t>(lines_.size()); }

 private:
  std::filesystem::path file_;
  Log& log_;
  std::vector<const DataSource*> sources_;
  std::set<std::string> lines_;
  bool is_behind_ = false;  ///< the file is incomplete, and a warning was printed
};

}  // namespace trainer
