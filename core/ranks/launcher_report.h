// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/base/file.h"

namespace trainer {

/// The standard error of mpirun and its ranks, forwarded at once. Two messages of mpirun are held back: its
/// report of a rank's exit code, since the rank has printed the reason itself, and that it forwards a signal
/// of launch_ranks.
class LauncherReport {
 public:
  /// Throws Error (exit 74) if the system has no further file.
  LauncherReport();
  ~LauncherReport() { end(); }
  LauncherReport(const LauncherReport&) = delete;
  LauncherReport& operator=(const LauncherReport&) = delete;

  /// The end that mpirun writes to. begin() closes it.
  int writing_end() const { return writing_.get(); }
  /// Call it once mpirun has started.
  void begin();
  /// Call it once mpirun has ended. Forwards the rest.
  void end();

  /// After end(). Whether rank 0 has written kRanksMetLine, which is not forwarded.
  bool have_joined() const { return have_joined_; }
  /// Whether mpirun or a rank has written anything else.
  bool is_empty() const { return !has_written_; }
  /// Forwards the reports that were held back.
  void show_exit_reports() const;
  /// "rank 1", as mpirun names the first that a signal has ended; "" if it names none.
  const std::string& killed_rank() const { return killed_rank_; }
  /// Whether Open MPI has lost another host, and the ranks there.
  bool has_lost_host() const { return has_lost_host_; }

 private:
  void run();
  bool read_some(int timeout_ms);
  void take(const std::string& line);
  void close_frame();

  FileDescriptor reading_, writing_;
  std::thread thread_;
  std::atomic<bool> ends_ = false;
  bool has_written_ = false, in_frame_ = false, has_lost_host_ = false, have_joined_ = false;
  std::string rest_;   ///< of a line without its end so far
  std::string frame_;  ///< a message of Open MPI, from one row of dashes to the next
  std::string exit_reports_, killed_rank_;
};

}  // namespace trainer
