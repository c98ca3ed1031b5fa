// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "core/host/log.h"
#include "core/run/run_list.h"
#include "core/run/run_settings.h"
#include "core/track/mlflow_sender.h"
#include "core/track/tracker.h"

namespace trainer {

/// Keys of a recipe.
constexpr const char* kMlflowUri = "logging.mlflow.uri";
constexpr const char* kMlflowExperiment = "logging.mlflow.experiment";

/// The run in this directory as a tracker has it, with the values of its recipe. The address is empty if the
/// recipe names none.
TrackedRun tracked_run(const std::filesystem::path& directory, const Settings& settings);

/// A run's state in MLflow's words. One that can be resumed is KILLED.
std::string mlflow_status(RunCondition state);

/// The tracker of the run that this process trains; nothing without one.
class RunTracker {
 public:
  /// Without an address there is none.
  RunTracker(const std::filesystem::path& directory, bool is_wanted, Log& log);

  /// Logs what the tracker has to say.
  void report();
  /// The run has ended, and its status is written: sends the rest, but for a few seconds only.
  void finish();

 private:
  std::filesystem::path directory_;
  Log& log_;
  std::unique_ptr<Tracker> tracker_;
};

}  // namespace trainer
