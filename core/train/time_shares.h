// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainer {

/// Seconds of a run's wall time by what they were spent on. They add up to it.
struct TimeShares {
  double computing = 0;
  double data = 0;        ///< waiting for batches
  double ranks = 0;       ///< waiting for other ranks
  double stolen = 0;      ///< other processes, or the hypervisor, used the processors
  double evaluating = 0;  ///< on samples of validation
  double saving = 0;      ///< writing checkpoints, as far as the run waited
  double starting = 0;    ///< before the first step, and returning to a checkpoint

  double total() const;
  TimeShares operator-(const TimeShares& earlier) const;
};

/// One part, its key in metrics and a summary ("time_data"), and what it is called in sentences.
struct TimePart {
  double TimeShares::*seconds;
  std::string_view key, text;
};
inline constexpr std::array kTimeParts = {
    TimePart{&TimeShares::computing, "time_computing", "computing"},
    TimePart{&TimeShares::data, "time_data", "waiting for data"},
    TimePart{&TimeShares::ranks, "time_ranks", "waiting for other ranks"},
    TimePart{&TimeShares::stolen, "time_stolen", "taken by other processes"},
    TimePart{&TimeShares::evaluating, "time_evaluating", "evaluating"},
    TimePart{&TimeShares::saving, "time_saving", "saving"},
    TimePart{&TimeShares::starting, "time_starting", "starting"},
};

/// "time.data_seconds"
std::string summary_key(const TimePart& part);

/// The share of each part in the whole, for a line of metrics. Parts without any time are left out.
std::vector<std::pair<std::string, double>> numbers_of(const TimeShares& time);

/// "61 % computing, 27 % waiting for data": the largest first, without those below 1 %.
std::string time_text(const TimeShares& time);

/// What an advice needs to know besides.
struct TimeFacts {
  int64_t workers = 0, cores = 1;  ///< threads that make batches; cores that the rank may use
  double made_seconds = 0;         ///< seconds of a worker for one batch
  double made_busy = 0;            ///< share of them in which it used a processor
  int64_t batches = 0;             ///< that were used
  double waited = 0;               ///< seconds that an average rank waited for others
  std::optional<std::pair<int64_t, double>> slowest;  ///< see RankSums
};

/// What helps against the largest share that can be avoided, with the key to change; "" if none is large
/// enough to matter.
std::string time_advice(const TimeShares& time, const TimeFacts& facts);

}  // namespace trainer
