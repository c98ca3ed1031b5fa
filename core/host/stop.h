// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/units.h"

namespace trainer {

/// Signals that ask the run to end: TERM, USR1, INT (Ctrl-C), and HUP (its terminal is gone) unless that is
/// ignored; and the alarm that ends it where its time is over. Until watch_loop() nothing can be lost, and
/// they end the process at once with exit code 75. From then on they are noted, to be asked for between
/// steps; if the process is still running after the grace period, it exits with 75 and its last checkpoint
/// remains. A second INT ends it at once with 130. PIPE is ignored, a run outlives the readers of its output,
/// and XFSZ: a limit of file sizes makes writing fail. There is at most one object of it; after it nothing is
/// left to be stopped, and signals are ignored.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  void set_grace(TimeSpan span);
  /// After `seconds` (0: never) the process ends with 75 even where no signal has come.
  void end_after(double seconds);
  /// From here on there is something to save.
  void watch_loop();
  /// Whether one has come.
  bool asked() const;
  /// "SIGTERM"
  std::string name() const;
};

}  // namespace trainer
