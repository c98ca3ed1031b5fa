// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace trainer::cpu {

/// Seconds of the processors that this process may use, since the machine was started.
struct ProcessorSeconds {
  double all = 0;   ///< idle ones too
  double busy = 0;  ///< with anybody's work, and those that a hypervisor gave to others
};

/// From the text of /proc/stat, over the processors of these numbers. Nothing if it has none of them.
std::optional<ProcessorSeconds> processor_seconds(std::string_view text, const std::vector<int>& processors,
                                                  double ticks_per_second);

/// What happened between two readings.
struct ProcessorUse {
  double seconds = 0;     ///< between them
  double own = 0;         ///< seconds of processors that this process used
  double others = 0;      ///< and all else
  double processors = 0;  ///< that it may use
};

/// Share of `threads` that computed, from 0 to 1.
double utilization(const ProcessorUse& use, double threads);

/// Share of the time that others took from `threads` threads that compute together, from 0 to 1. Others take
/// nothing while they fit beside these threads. The threads wait for each other, so that what one of them
/// loses, all lose: what the others have too much is divided by the number of threads.
double stolen(const ProcessorUse& use, double threads);

}  // namespace trainer::cpu
