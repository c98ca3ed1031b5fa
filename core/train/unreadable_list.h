// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/data/source.h"
#include "core/engine/process_group.h"
#include "core/host/log.h"

namespace trainer {

/// Names each unreadable sample once, in the log and in a file of its own, sorted. Among several ranks each
/// has a list, and that of rank 0 has the file. Sources and log outlive it.
class UnreadableList {
 public:
  /// A resumed run keeps its earlier list. Without a file they are only logged.
  UnreadableList(std::filesystem::path file, Log& log, bool goes_on = false);

  /// The source whose unreadable samples are listed from now on; `split` names them in numbers().
  void watch(DataSource& source, const std::string& split) { sources_.emplace_back(split, &source); }

  /// Lists the samples found since the last call; returns whether there were any. Retries a file that could
  /// not be written.
  bool report();

  /// Whether this rank has listed samples that the others do not know yet.
  bool has_new_lines() const { return !new_lines_.empty(); }
  /// Exchanges the unreadable samples of all ranks. They count against every rank's budget: if all together
  /// are too many, throws Error (exit 65) on every rank.
  void share(ProcessGroup& group);

  /// The numbers of all unreadable samples, by split; those without any are left out.
  std::map<std::string, std::vector<int64_t>> numbers() const;

  int64_t size() const { return static_cast<int64_t>(lines_.size()); }

 private:
  void add(const Json& found, int64_t rank);
  void count(const Json& found);
  void write();

  std::filesystem::path file_;
  Log& log_;
  std::vector<std::pair<std::string, DataSource*>> sources_;
  std::map<std::string, std::string> lines_;  ///< sample and reason; which rank has found it, unless 0
  std::vector<std::string> new_lines_;
  bool is_behind_ = false;  ///< the file is incomplete, and a warning was printed
};

}  // namespace trainer
