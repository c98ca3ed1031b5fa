// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace trainer {

/// Lines of a pipe, a terminal or a file as they arrive, for a program that answers each before it awaits the
/// next.
class ArrivingLines {
 public:
  /// Longer lines lose their end: twice as much as the system takes as a path.
  static constexpr size_t kMostBytes = 8192;

  /// Reads from an open descriptor, which must outlive it.
  explicit ArrivingLines(int descriptor) : descriptor_(descriptor) {}

  /// Waits for a line, and returns it with those that have arrived with it: at most `most`, without their
  /// line breaks. The last line needs no line break. Empty at the end of the input, and once `stops` returns
  /// true, which is called several times a second. Throws Error (exit 74) if reading fails.
  std::vector<std::string> next(size_t most, const std::function<bool()>& stops);

 private:
  bool is_ready_within(int milliseconds) const;
  void read_some();
  void take(const char* bytes, size_t count);

  int descriptor_;
  std::deque<std::string> lines_;  ///< complete ones
  std::string begun_;              ///< the line that is not complete yet
  bool has_begun_ = false;
  bool is_ended_ = false;
};

}  // namespace trainer
