// SPDX-License-Identifier: Apache-2.0
#include "core/session/tracking.h"

#include <utility>

#include "core/base/error.h"
#include "core/config/value.h"
#include "core/recipe/changed.h"
#include "core/report/run_report.h"
#include "core/run/status.h"

namespace trainer {
namespace {

/// A job that must end has more to do with its time.
constexpr std::chrono::seconds kPatience(5);

/// From the run's own report of it: while this process holds the run, others take it for running.
RunCondition ended_state(const std::filesystem::path& directory, RunCondition seen) {
  const std::optional<RunStatus> status = read_status(directory / kStatusFile);
  switch (status ? status->state : RunStatus::State::running) {
    case RunStatus::State::finished:
      return RunCondition::finished;
    case RunStatus::State::saved:
      return RunCondition::saved;
    case RunStatus::State::paused:
      return RunCondition::paused;
    case RunStatus::State::failed:
      return RunCondition::failed;
    case RunStatus::State::running:
      break;
  }
  return seen;
}

std::string page_of(const std::filesystem::path& directory) {
  ReportedRun run{.overview = look_at_run(directory).value(), .settings = read_settings(directory)};
  run.overview.state = ended_state(directory, run.overview.state);
  run.changed = changed_settings(run.settings);
  return run_report(run);
}

/// Of a setting, which is YAML on one line.
Value parsed(const std::string& setting) {
  Diagnostics ignored;
  return parse_yaml(setting, "a setting", ignored);
}

/// Without quotation marks. A value from the environment may be a secret, and stays the variable's name.
std::string as_written(const std::string& setting) {
  const Value value = parsed(setting);
  if (value.kind != Value::Kind::scalar) return setting;
  return value.raw.empty() ? value.text : value.raw;
}

std::string value_of(const Settings& settings, const char* key) {
  const auto found = settings.find(key);
  return found == settings.end() ? "" : parsed(found->second).text;
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

RunTracker::RunTracker(const std::filesystem::path& directory, bool is_wanted, Log& log)
    : directory_(directory), log_(log) {
  if (is_wanted) tracker_ = std::make_unique<Tracker>(tracked_run(directory, read_settings(directory)));
}

void RunTracker::report() {
  if (!tracker_) return;
  for (const Tracker::Message& message : tracker_->take_messages()) {
    if (message.is_warning) log_.warn(message.text);
    if (!message.is_warning) log_.info(message.text);
  }
}

void RunTracker::finish() {
  if (!tracker_) return;
  tracker_->finish(mlflow_status(ended_state(directory_, RunCondition::failed)), kPatience);
  report();
}

}  // namespace trainer
