// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/process_group.h"
#include "core/metrics/metrics.h"

namespace trainer {

/// The times of a rank since the last line of metrics, in milliseconds per step.
struct RankTimes {
  double step = 0;       ///< all of it
  double data_wait = 0;  ///< for this rank's own samples
  double waited = 0;     ///< for the other ranks: communication that is not hidden behind computation
};

/// Numbers about all ranks for a line of metrics: their number, the average wait for each other, the slowest,
/// and the times of each. Every rank calls it at once. Empty for one rank.
NamedNumbers numbers_of_ranks(ProcessGroup& group, const RankTimes& own);

}  // namespace trainer
