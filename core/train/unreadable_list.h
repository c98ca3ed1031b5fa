// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/data/source.h"
#include "core/host/log.h"

namespace trainer {

/// Names each unreadable sample once, in the log and in a file of its own, sorted. Sources and log outlive
/// it.
class UnreadableList {
 public:
  /// A resumed run keeps its earlier list. Without a file they are only logged.
  UnreadableList(std::filesystem::path file, Log& log, bool goes_on = false);

  /// Whose unreadable samples to list from now on; `split` names them in numbers().
  void watch(const DataSource& source, const std::string& split) { sources_.emplace_back(split, &source); }

  /// Lists what was found since the last call, and whether that is anything. A file that cannot be written is
  /// tried again next time.
  bool report();

  /// The numbers of all unreadable samples, by split; those without any are left out.
  std::map<std::string, std::vector<int64_t>> numbers() const;

  int64_t size() const { return static_cast<int64_t>(lines_.size()); }

 private:
  void write();

  std::filesystem::path file_;
  Log& log_;
  std::vector<std::pair<std::string, const DataSource*>> sources_;
  std::set<std::string> lines_;
  bool is_behind_ = false;  ///< the file is incomplete, and a warning was printed
};

}  // namespace trainer
