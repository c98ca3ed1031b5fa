// SPDX-License-Identifier: Apache-2.0
#include "core/session/tracking.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/config/value.h"
#include "core/recipe/changed.h"
#include "core/report/run_report.h"
#include "core/run/status.h"
#include "core/track/wandb_run.h"

namespace trainer {
namespace {

/// A job that must end has more to do with its time.
constexpr std::chrono::milliseconds kPatience(5000);

/// While this process holds the run, others take it for running.
RunCondition ended_state(const std::filesystem::path& directory) {
  const std::optional<RunStatus> status = read_status(directory / kStatusFile);
  return status ? ended_condition(*status) : RunCondition::lost;
}

std::string page_of(const std::filesystem::path& directory) {
  ReportedRun run{.overview = look_at_run(directory).value(), .settings = read_settings(directory)};
  if (run.overview.state == RunCondition::running) run.overview.state = ended_state(directory);
  run.changed = changed_settings(run.settings);
  return run_report(run);
}

/// Of a setting, which is YAML on one line.
Value setting_value(const std::string& setting) {
  Diagnostics ignored;
  return parse_yaml(setting, "a setting", ignored);
}

/// Without quotation marks. A value from the environment may be a secret, and stays the variable's name.
std::string as_written(const std::string& setting) {
  const Value value = setting_value(setting);
  if (value.kind != Value::Kind::scalar) return setting;
  return value.raw.empty() ? value.text : value.raw;
}

std::string value_of(const Settings& settings, const char* key) {
  const auto found = settings.find(key);
  return found == settings.end() ? "" : setting_value(found->second).text;
}

}  // namespace

TrackedRun tracked_run(const std::filesystem::path& directory, const Settings& settings) {
  TrackedRun run{.directory = directory,
                 .uri = value_of(settings, kMlflowUri),
                 .experiment = value_of(settings, kMlflowExperiment),
                 .report = [directory] { return page_of(directory); }};
  for (const auto& [key, value] : settings) {
    if (value != "null" && key != kMlflowUri && key != kMlflowExperiment)
      run.parameters[key] = as_written(value);
  }
  return run;
}

std::string mlflow_status(RunCondition state) {
  switch (state) {
    case RunCondition::finished:
      return "FINISHED";
    case RunCondition::failed:
      return "FAILED";
    case RunCondition::running:
      return "RUNNING";
    case RunCondition::saved:
    case RunCondition::paused:
    case RunCondition::lost:
      break;
  }
  return "KILLED";
}

std::optional<std::filesystem::path> write_wandb(const std::filesystem::path& directory,
                                                 const Settings& settings, RunCondition state) {
  if (value_of(settings, kWandb) != "offline") return std::nullopt;
  const bool has_failed = state == RunCondition::failed || state == RunCondition::lost;
  return write_wandb_run({.directory = directory,
                          .config = tracked_run(directory, settings).parameters,
                          .exit_code = has_failed ? 1 : 0});
}

RunTracker::RunTracker(const RunDirectory& directory, const LoggingSection& logging,
                       std::chrono::milliseconds patience, Log& log)
    : directory_(directory), logging_(logging), patience_(std::min(patience, kPatience)), log_(log) {}

void RunTracker::begin() {
  if (logging_.mlflow_uri)
    tracker_ = std::make_unique<Tracker>(tracked_run(directory_.path(), read_settings(directory_.path())));
}

void RunTracker::report() {
  if (!tracker_) return;
  for (const Tracker::Message& message : tracker_->take_messages()) {
    if (message.is_warning) log_.warn(message.text);
    if (!message.is_warning) log_.info(message.text);
  }
}

/// A failure costs the directory, not the run.
void RunTracker::finish_wandb() try {
  const std::filesystem::path& run = directory_.path();
  const auto written = write_wandb(run, read_settings(run), ended_state(run));
  if (written) log_.info("  wandb sync " + one_line(written->string()));
} catch (const Error& problem) {
  log_.warn(fmt::format("{}; `trainer track {}` writes the directory for `wandb sync` later", problem.what(),
                        one_line(directory_.path().string())));
}

void RunTracker::finish() try {
  directory_.require_in_place();
  finish_wandb();
  if (!tracker_) return;
  tracker_->finish(mlflow_status(ended_state(directory_.path())), patience_);
  report();
} catch (const std::exception& problem) {  // the run's own end matters more
  log_.warn(problem.what());
}

}  // namespace trainer
