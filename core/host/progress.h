// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace trainer {

/// The progress of a run.
struct ProgressState {
  int64_t step = 0, steps = 0;    ///< batches consumed, and all there will be
  int64_t epoch = 0, epochs = 0;  ///< from 1; `epochs` 0 if the run's length is not in epochs
  double loss = 0;
  double samples_per_s = 0;
  double tokens_per_s = 0;  ///< shown instead, if samples are tokens
  double data_wait = 0;     ///< the part of the time spent waiting for data, 0 to 1
  double lr = 0;
  std::string metric;         ///< of the validation split; empty before its first evaluation
  double last = 0, best = 0;  ///< its values
};

/// Shows how far a run is: on a terminal one line that changes in place, elsewhere plain lines now and then
/// without control characters. Failing writes are ignored: a run outlives its terminal. For one thread.
class Progress {
 public:
  struct Options {
    int fd = 2;
    bool terminal = false;             ///< for_terminal() finds out
    double terminal_interval_s = 0.1;  ///< least time between two changes of the line
    double plain_interval_s = 10;      ///< least time between two plain lines
    std::function<int()> width;        ///< columns; asks the terminal if empty
    std::function<double()> clock;     ///< seconds, monotonic; the system's if empty
  };
  /// Whether `fd` is a terminal that can move its cursor.
  static bool for_terminal(int fd);

  explicit Progress(Options options);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { finish(); }

  /// Whether update() would print now: reads only the clock, so that a step need not fetch its loss.
  bool due() const { return options_.clock() >= next_; }
  void update(const ProgressState& state);

  /// One whole line, for results and messages: above the changing line if there is one.
  void print_line(std::string_view text);
  /// Takes the changing line away.
  void finish();

 private:
  std::string eta(const ProgressState& state, double now) const;
  void write(std::string_view text) const;

  Options options_;
  double next_ = 0;     // when the next update is due
  double started_ = 0;  // when the first update came, and at which step
  int64_t first_step_ = -1;
  std::string line_;  // the text of the terminal's changing line
};

/// The changing line: at most `width - 1` columns (a full last column would wrap). If it does not fit, the
/// bar is omitted first, then blanks become narrower, then the least important parts are left out.
std::string progress_line(const ProgressState& state, const std::string& eta, int width);

}  // namespace trainer
