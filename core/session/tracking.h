// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/host/log.h"
#include "core/recipe/sections.h"
#include "core/run/run_directory.h"
#include "core/run/run_list.h"
#include "core/run/run_settings.h"
#include "core/track/mlflow_sender.h"
#include "core/track/tracker.h"

namespace trainer {

/// Keys of a recipe.
constexpr const char* kMlflowUri = "logging.mlflow.uri";
constexpr const char* kMlflowExperiment = "logging.mlflow.experiment";
constexpr const char* kWandb = "logging.wandb";

/// The run in this directory as a tracker has it, with the values of its recipe. The address is empty if the
/// recipe names none.
TrackedRun tracked_run(const std::filesystem::path& directory, const Settings& settings);

/// A run's state in MLflow's words. One that can be resumed is KILLED.
std::string mlflow_status(RunCondition state);

/// Writes the directory for `wandb sync`, if the recipe wants it; returns where, or nothing. Throws Error
/// (exit 65, 74).
std::optional<std::filesystem::path> write_wandb(const std::filesystem::path& directory,
                                                 const Settings& settings, RunCondition state);

/// The trackers of the run that this process trains, if the recipe names any.
class RunTracker {
 public:
  /// `patience`: the longest that an end may take, since the other ranks wait for this one.
  RunTracker(const RunDirectory& directory, const LoggingSection& logging, std::chrono::milliseconds patience,
             Log& log);

  /// From now on the server shows the run as running. finish() must follow.
  void begin();
  /// Logs what the tracker has to say.
  void report();
  /// The run has ended, and its status is written: sends the rest, but for a few seconds at most. Nothing is
  /// written if the directory is no longer the run's.
  void finish();

 private:
  void finish_wandb();

  const RunDirectory& directory_;
  const LoggingSection& logging_;
  std::chrono::milliseconds patience_;
  Log& log_;
  std::unique_ptr<Tracker> tracker_;
};

}  // namespace trainer
