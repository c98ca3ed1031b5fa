// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <limits>

#include "core/base/error.h"

namespace trainer::cuda {

/// The least time that one run takes, in the unit of `time_of_burst(runs)`, which runs that often in a row.
/// Short runs are timed in bursts: one alone would be timed with its launch. The first run does not count.
template <class Burst>
float least_time(float enough, Burst time_of_burst) {
  constexpr int kBursts = 3;
  constexpr float kMostRuns = 100;
  time_of_burst(1);
  const float once = time_of_burst(1);
  const int runs =
      once > 0 ? static_cast<int>(std::clamp(enough / once, 1.0f, kMostRuns)) : static_cast<int>(kMostRuns);
  float least = std::numeric_limits<float>::max();
  for (int i = 0; i < kBursts; ++i) least = std::min(least, time_of_burst(runs) / static_cast<float>(runs));
  return least;
}

/// The candidate of `count` with the least `time(i)`, the first of equals. One that throws Error cannot run
/// here and is skipped; if none can run, throws the last one's error.
template <class Time>
size_t fastest_of(size_t count, Time time) {
  std::exception_ptr problem;
  size_t best = count;
  float least = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < count; ++i) {
    try {
      const float spent = time(i);
      if (best != count && spent >= least) continue;
      best = i;
      least = spent;
    } catch (const Error&) {
      problem = std::current_exception();
    }
  }
  if (best == count && problem) std::rethrow_exception(problem);
  return best;
}

}  // namespace trainer::cuda
