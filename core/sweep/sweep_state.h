// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/sweep/sweep_plan.h"
#include "core/sweep/trial_record.h"

namespace trainer {

/// What a sweep knows of a trial: a function of the records of this and of earlier trials.
struct TrialState {
  enum class What {
    later,     ///< its setting is not known yet
    ready,     ///< trains up to the rung `next`
    waiting,   ///< for earlier trials at the rung before
    dropped,   ///< was not among the best at the last rung
    failed,    ///< has no value
    finished,  ///< trained to the end
  };
  What what = What::later;
  size_t next = 0;              ///< rung; after the last one comes the end
  std::vector<double> rungs;    ///< the mean over its repeats at each rung that all of them have reached
  std::vector<double> spreads;  ///< their standard deviations
  std::optional<double> value;  ///< the mean at the end, of a finished one
  double spread = 0;

  bool is_decided() const { return what == What::dropped || what == What::failed || what == What::finished; }
};

using TrialRecords = std::map<int64_t, TrialRecord>;

/// The state of each trial.
std::vector<TrialState> sweep_state(const SweepPlan& plan, const TrialRecords& records);

/// What is known of the trials before one, for the choice of its setting: of those that it does not wait for
/// nothing but their settings, whatever is recorded.
std::vector<Observation> observations_before(const SweepPlan& plan, const TrialRecords& records,
                                             const std::vector<TrialState>& states, int64_t number);
/// The same of all trials, as they are.
std::vector<Observation> observations(const SweepPlan& plan, const TrialRecords& records,
                                      const std::vector<TrialState>& states);

/// Trials that need no checkpoints any more: dropped ones, and finished ones beyond the best `keep`. Both are
/// final: a decision never changes, and further trials can only rank before a finished one.
std::vector<int64_t> trials_without_checkpoints(const SweepPlan& plan, const std::vector<TrialState>& states);

/// The number of the best finished trial; nothing if there is none.
std::optional<int64_t> best_trial(const SweepPlan& plan, const std::vector<TrialState>& states);

}  // namespace trainer
