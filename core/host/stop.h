// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/units.h"

namespace trainer {

/// Signals that request the end of the process: TERM, USR1, USR2, INT (Ctrl-C), XCPU (the limit of processor
/// time), PWR (power is failing), HUP (its terminal is gone) unless that is ignored, and ALRM from outside.
/// Its own alarm ends it when its time is over. Signals are received even if the parent has blocked them.
/// Until watch_loop() nothing can be lost, and they end the process at once with exit code 75. From then on
/// they are recorded, to be checked between steps; if the process is still running after the grace period, it
/// exits with 75. A second INT ends it at once with 130. PIPE is ignored: a run outlives the readers of its
/// output. At most one object exists; after its end nothing is left to be stopped, and signals are ignored.
class StopSignals {
 public:
  /// The message if the process ends between two checks.
  struct Texts {
    const char* early;  ///< before watch_loop()
    const char* kept;   ///< after it: the remaining state
  };
  static constexpr Texts kRun{"stopped during start-up: nothing is lost", "the last checkpoint remains"};
  static constexpr Texts kPass{"stopped: nothing was written", "the output is incomplete"};

  /// `texts` outlive the process.
  explicit StopSignals(const Texts& texts = kRun);
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  void set_grace(TimeSpan span);
  /// After `seconds` (0: never) the process ends with 75 even if no signal has arrived.
  void end_after(double seconds);
  /// From here on there is something to save.
  void watch_loop();
  /// From here on the result is fixed: a signal that arrives now must not change it.
  void ignore();
  /// Whether one has arrived.
  bool asked() const;
  /// "SIGTERM"
  std::string name() const;
  /// For work that cannot be resumed: throws Error (exit 75) if one has arrived.
  void throw_if_asked() const;
};

}  // namespace trainer
