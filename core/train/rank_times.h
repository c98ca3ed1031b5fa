// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/communicator.h"
#include "core/metrics/metrics.h"

namespace trainer {

/// What a rank's steps took since the last line of metrics, in milliseconds per step.
struct RankTimes {
  double step = 0;       ///< all of it
  double data_wait = 0;  ///< for this rank's own samples
  double waited = 0;     ///< for the other ranks: communication that is not hidden behind computation
};

/// Numbers for a line of metrics about all ranks: how many they are, what they wait for each other on
/// average, which of them computes longest, and the times of each. Every rank calls it at once. Nothing for
/// one rank.
NamedNumbers numbers_of_ranks(Communicator& ranks, const RankTimes& own);

}  // namespace trainer
