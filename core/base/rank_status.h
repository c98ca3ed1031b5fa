// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace trainer {

/// What a rank is doing.
enum class Activity : uint8_t { starting, awaiting_data, computing, evaluating, saving, ending };
constexpr std::array kActivityNames = {"starting",   "awaiting data", "computing",
                                       "evaluating", "saving",        "ending"};

/// The status of a rank, which its heartbeats report.
struct RankStatus {
  int64_t step = 0;  ///< 0: before the first one
  Activity activity = Activity::starting;
  bool waits = false;      ///< for the other ranks
  int64_t changes = 0;     ///< of its status so far: a rank that hangs has no more of them
  int64_t first_step = 0;  ///< of this process, which may take longer; 0: not yet
  int64_t bytes = 0;       ///< that the process holds in the host's memory
  int64_t gpu = -1;        ///< the number of its GPU on the host; -1: it uses none
  bool operator==(const RankStatus&) const = default;
};

constexpr const char* name_of(Activity activity) {
  return kActivityNames.at(static_cast<size_t>(activity));
}

}  // namespace trainer
