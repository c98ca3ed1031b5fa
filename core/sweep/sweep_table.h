// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/sweep/sweep_state.h"

namespace trainer {

/// A trial as tables show it.
struct SweepRow {
  int64_t number = 0;
  TrialState state;
  std::string what;                ///< "finished", "dropped at 156ba", "waiting", "failed", "open"
  std::string reason;              ///< of a failure, with the process's last line
  std::vector<std::string> texts;  ///< the value of each column
  int64_t steps = 0;               ///< of all its trainings, as are the seconds
  double seconds = 0;
  double samples_per_s = 0, joules_per_sample = 0;  ///< means; 0: not known
  int64_t peak_bytes = 0;                           ///< the most
};

/// The trials that have begun, by their numbers.
std::vector<SweepRow> sweep_rows(const SweepPlan& plan, const TrialRecords& records,
                                 const std::vector<TrialState>& states);

/// sweep.csv: a row for each, empty where there is no value.
std::string sweep_csv(const SweepPlan& plan, const std::vector<SweepRow>& rows);

/// best.yaml: a recipe that trains the best setting again, alone and with the same bits. `threads`: of its
/// trial.
std::string best_recipe(const SweepPlan& plan, const TrialRecord& best, const TrialState& state,
                        int64_t threads);

/// A value of a metric in tables: the digits of a number of 32 bits.
std::string metric_number(double value);

/// "top1 0.8921", with the deviation of repeats.
std::string value_text(const SweepPlan& plan, double value, double spread);

}  // namespace trainer
