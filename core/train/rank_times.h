// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/engine/process_group.h"
#include "core/metrics/metrics.h"

namespace trainer {

/// The times of a rank since the last line of metrics, in milliseconds per step, and its energy.
struct RankTimes {
  double step = 0;       ///< all of it
  double data_wait = 0;  ///< for this rank's own samples
  double waited = 0;     ///< for the other ranks: communication that is not hidden behind computation
  double joules = 0;     ///< of its device since that line; of a device of several ranks, its part
};

/// Those of all ranks, in their order. Every rank calls it at once. Empty for one rank.
std::vector<RankTimes> times_of_ranks(ProcessGroup& group, const RankTimes& own);

/// Numbers about all ranks for a line of metrics: their number, the average wait for each other, the slowest,
/// and the times of each. Empty for none.
NamedNumbers numbers_of(const std::vector<RankTimes>& ranks);

/// Sums over a run.
class RankSums {
 public:
  void add(const std::vector<RankTimes>& ranks, int64_t steps);

  /// Seconds that an average rank waited for others.
  double waited() const;
  /// Of all devices.
  double joules() const;
  /// The rank that computes longest, and its time as a multiple of the others' average. Nothing if there are
  /// no others.
  std::optional<std::pair<int64_t, double>> slowest() const;

 private:
  std::vector<RankTimes> sums_;  ///< in milliseconds and joules
};

}  // namespace trainer
