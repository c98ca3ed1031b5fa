// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/base/file.h"

namespace trainer {

/// The standard error of mpirun, which also has that of its ranks. Passes on what it reads at once, except
/// for mpirun's report of a rank's exit code: a rank that ends with one of this program's codes has given the
/// reason itself. Nor does it pass on that mpirun forwards a signal, which launch_ranks has sent.
class LauncherReport {
 public:
  /// Throws Error (exit 74) if the system has no further file.
  LauncherReport();
  ~LauncherReport() { end(); }
  LauncherReport(const LauncherReport&) = delete;
  LauncherReport& operator=(const LauncherReport&) = delete;

  /// For mpirun to write to. Ends with begin().
  int writing_end() const { return writing_.get(); }
  /// Once mpirun has been started.
  void begin();
  /// Once mpirun has ended: passes on the rest.
  void end();

  /// After end(). Whether mpirun or a rank has written anything.
  bool is_empty() const { return !has_written_; }
  /// Passes on what was held back.
  void show_exit_reports() const;
  /// "rank 1", as mpirun names the first that a signal has ended; "" if it names none.
  const std::string& killed_rank() const { return killed_rank_; }

 private:
  void run();
  bool read_some(int patience_ms);
  void take(const std::string& line);
  void close_frame();

  FileDescriptor reading_, writing_;
  std::thread thread_;
  std::atomic<bool> ends_ = false;
  bool has_written_ = false, in_frame_ = false;
  std::string rest_;   ///< of a line without its end so far
  std::string frame_;  ///< a message of Open MPI, from one row of dashes to the next
  std::string exit_reports_, killed_rank_;
};

}  // namespace trainer
