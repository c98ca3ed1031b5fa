// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <string>

// A library that is loaded before a program (LD_PRELOAD). It counts the program's calls with FAULT_PATH in
// their subject, and executes FAULT_ACTION at call FAULT_AT. A subject is the path of a file, or a text of
// ranks.cpp; a FAULT_PATH of * matches all.
//   FAULT_ACTION: before the call: kill, segv, stop (each by that signal) or exit (with 0); stall (for ever);
//                 short (half of a write); flip (a bit of a broadcast's data, or the first of a read); slow
//                 (by FAULT_MS milliseconds); or the number of the errno with which it fails
//   FAULT_CALLS:  names of the calls to count, with commas; default: all
//   FAULT_ALWAYS: the later calls too
//   FAULT_UNTIL:  a file for which the call waits before that
//   FAULT_RANK:   only in the process of this rank
//   FAULT_LOG:    a file for a line for each call; FAULT_LOG.data gets the written data

namespace faults {

constexpr int kHalf = -1, kFlip = -2;

/// The function that the loader would have called.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// The state of the calls so far. Never destroyed: threads may write until the very end.
class Faults {
 public:
  static Faults& instance();

  /// Descriptors are identified by the path that they were opened with.
  void opened(int fd, const std::string& path);
  std::string path_of(int fd);

  /// 0: continue; > 0: fail with this errno; kHalf: write or read half; kFlip: send or read another bit.
  int before(const char* call, const std::string& path, const std::string& detail, const void* data = nullptr,
             size_t bytes = 0);

 private:
  Faults();
  bool is_counted(const char* call, const std::string& path) const;
  void log(const std::string& line) const;
  int act() const;

  static constexpr size_t kMostFiles = 4096;

  ssize_t (*write_)(int, const void*, size_t) = next<ssize_t(int, const void*, size_t)>("write");
  std::mutex mutex_;
  std::array<std::string, kMostFiles> paths_;
  std::string path_, calls_, action_, until_;
  bool always_, is_of_this_rank_;
  long at_, count_ = 0;
  int log_ = -1, data_ = -1;
};

}  // namespace faults
