// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/host/children.h"
#include "core/sweep/sweep_plan.h"
#include "core/sweep/trial_record.h"

namespace trainer {

/// What one of the trials that train at once gets of the machine.
struct TrialShare {
  int64_t threads = 0;                  ///< of each rank
  std::optional<int64_t> memory = {};   ///< bytes of the device
  std::optional<int64_t> gpu = {};      ///< device.index
  std::optional<int64_t> seconds = {};  ///< run.max_wall_time
};

/// The next training of a trial: of one of its repeats, up to a rung or to the end.
struct TrialPart {
  size_t repeat = 0, rung = 0;
};
/// The first repeat that has not come to rung `next`.
TrialPart next_part(const SweepPlan& plan, const TrialRecord& record, size_t next);

/// The run's directory of one of a trial's trainings.
std::filesystem::path run_of(const SweepPlan& plan, const std::filesystem::path& sweep, int64_t number,
                             size_t repeat);

/// The command that trains a part, as a user could type it.
std::vector<std::string> trial_command(const SweepPlan& plan, const std::string& program,
                                       const std::filesystem::path& sweep, const TrialRecord& record,
                                       const TrialPart& part, const TrialShare& share);

/// How a trial's process ended.
struct TrialEnd {
  int status = 0;              ///< of waitpid
  bool was_late = false;       ///< killed after sweep.trial_timeout
  bool lacked_memory = false;  ///< the cgroup has killed a process meanwhile
  bool was_asked = false;      ///< to stop, by this process
  double seconds = 0;
  std::string last_line;
};

/// Adds it to the record: values of the run's metrics, or why it has none. Returns the exit code with which
/// the sweep must end; 0: it goes on. Throws Error (exit 74) if the run's files cannot be read.
int add_end(const SweepPlan& plan, const std::filesystem::path& sweep, const TrialPart& part,
            const TrialEnd& end, TrialRecord& record);

}  // namespace trainer
