// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/search/space.h"

namespace trainer {

/// What a search knows of an earlier setting. Lists of them are in the order in which settings were made.
struct Observation {
  enum class State {
    finished,  ///< trained to the end; one whose value is NaN counts as failed
    dropped,   ///< stopped at `rung`, the last one reached; `value` is the one there
    open,      ///< without a result yet: counts as bad, so that the next settings differ from it
    failed,    ///< ignored
  };
  Setting setting;
  State state = State::open;
  double value = 0;
  int64_t rung = 0;  ///< from 0; higher is later
};

/// Whether it has a result: finished with a number, or dropped.
bool has_result(const Observation& observation);

/// Places in a list of observations, rising.
struct ObservationSplit {
  std::vector<size_t> good, bad;
};

/// Divides those with a result for a tree-structured Parzen estimator: the best 10 %, at most 25, are good.
/// Finished ones are better than dropped ones, and of these those of later rungs. Open ones are bad.
ObservationSplit split_observations(const std::vector<Observation>& seen, bool maximize);

/// The dimensions that occur in any result, in groups: those of one group occurred in the same results.
std::vector<std::vector<size_t>> dimension_groups(const Space& space, const std::vector<Observation>& seen);

}  // namespace trainer
