// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/host/children.h"
#include "core/host/log.h"
#include "core/host/time_limit.h"
#include "core/run/run_identity.h"
#include "core/sweep/sweep_directory.h"
#include "core/sweep/sweep_plan.h"
#include "core/sweep/trial_lock.h"
#include "core/sweep/trial_process.h"

namespace trainer {

/// What a sweep's process has for its trials.
struct SweepMachine {
  std::string program;                 ///< the path of this one
  std::optional<int64_t> memory = {};  ///< bytes of the device for each trial
  int64_t gpus = 0;                    ///< trials take turns on them
};

/// Trains trials, each a process of its own, until none is left for this process. Other processes may do the
/// same in the same directory: a trial belongs to the one that has its lock.
class SweepWorker {
 public:
  SweepWorker(const SweepPlan& plan, SweepDirectory& directory, SweepMachine machine, TimeLimit& limit,
              Log& log);

  /// Returns the exit code: 0 if no trial is left, or others train the last ones; 75 if it was asked to stop;
  /// 70 if no trial has a value; 64, 69 or 74 of a trial that says that none could work. Throws Error.
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Active {
    TrialLock lock;
    TrialRecord record;
    TrialPart part;
    std::optional<RunIdentity> identity;  ///< of its run; nothing for settings that do not fit together
    int64_t slot = 0;
    Clock::time_point begin;
    int64_t memory_kills = 0;
    std::filesystem::path log;
    int64_t log_begin = 0;
  };

  bool work();
  bool stops() const { return children_.were_asked() || is_over_ || code_ != 0; }
  void look();
  void tell_decisions();
  void start_ready();
  bool start(int64_t number);
  void start_part(Active trial);
  void take(const ChildEnd& end);
  bool recipe_has_changed();
  bool is_of_another_recipe(const Active& trial);
  void share_kills();
  void remove_checkpoints();
  void tell(const Active& trial) const;
  bool is_needed();
  bool is_done() const;
  int64_t free_slot() const;
  int finish();

  const SweepPlan& plan_;
  SweepDirectory& directory_;
  SweepMachine machine_;
  TimeLimit& limit_;
  Log& log_;
  Children children_;
  std::map<size_t, Active> active_;  ///< by their child
  TrialRecords records_;
  std::vector<TrialState> states_;
  std::set<int64_t> without_checkpoints_, undecided_;  ///< the latter: of its own trials
  int code_ = 0;                                       ///< with which it must end
  bool is_over_ = false;                               ///< the time that it has
  double idle_ = 0, total_ = 0;                        ///< seconds, of all its trials
  double limit_seconds_ = 0;                           ///< that it had at its start; 0: no limit
  std::optional<Clock::time_point> unneeded_;          ///< since when others have all trials that are left
};

}  // namespace trainer
