// SPDX-License-Identifier: Apache-2.0
#include "core/sweep/trial_process.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/regular_file.h"
#include "core/recipe/job.h"
#include "core/run/run_history.h"
#include "core/run/run_list.h"
#include "core/run/status.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// Ends after which a trial goes on before they count as a result.
constexpr int64_t kMostRequeues = 3, kMostKills = 2;

/// A duration of training after which a run pauses; nothing for the end.
std::optional<Duration> pause_of(const SweepPlan& plan, const TrialPart& part) {
  return part.rung < plan.rungs().size() ? std::optional(plan.rungs()[part.rung]) : std::nullopt;
}

/// The sweep's metric in the evaluation after a step.
std::optional<double> evaluated(const SweepPlan& plan, const RunHistory& history, int64_t step) {
  for (const MetricsRecord& record : history.validation) {
    if (record.step == step) return number_in(record, plan.metric());
  }
  return std::nullopt;
}

/// Measurements of a run so far.
void add_measurements(const fs::path& run, const RunHistory& history, RepeatRecord& repeat) {
  if (const std::optional<RunOverview> overview = look_at_run(run))
    repeat.samples_per_s = overview->samples_per_s.value_or(0);
  for (const MetricsRecord& record : history.training)
    repeat.peak_bytes = std::max(repeat.peak_bytes, record.memory_bytes.value_or(0));
  const Json summary = Json::parse_or_null(read_text(run / "summary.json", Links::refuse).value_or(""));
  const Json *device = summary.find("device"), *memory = summary.find("memory");
  if (const Json* joules = device == nullptr ? nullptr : device->find("joules_per_sample");
      joules != nullptr && joules->is_number())
    repeat.joules_per_sample = joules->number();
  if (const Json* peak = memory == nullptr ? nullptr : memory->find("peak_bytes"); peak != nullptr)
    repeat.peak_bytes = peak->integer().value_or(repeat.peak_bytes);
}

void fail(TrialRecord& record, const std::string& reason, const TrialEnd& end) {
  const bool has_exited = WIFEXITED(end.status);
  record.failure = TrialFailure{.reason = reason,
                                .code = has_exited ? WEXITSTATUS(end.status) : 0,
                                .message = has_exited ? end.last_line : signal_text(WTERMSIG(end.status))};
}

/// Of a finished run whose record was lost.
void add_passed_rungs(const SweepPlan& plan, const RunHistory& history, const TrialRecord& record,
                      RepeatRecord& repeat) {
  if (repeat.rungs.size() == plan.rungs().size()) return;
  const RunSpec spec(plan.with(record.overrides));
  while (repeat.rungs.size() < plan.rungs().size()) {
    const std::optional<int64_t> step = steps_in(spec, plan.rungs()[repeat.rungs.size()]);
    const std::optional<double> value = step ? evaluated(plan, history, *step) : std::nullopt;
    if (!value || !std::isfinite(*value)) return;
    repeat.rungs.push_back({*step, *value});
  }
}

/// The values of a run that has paused or finished.
void add_values(const SweepPlan& plan, const fs::path& run, const TrialPart& part, const TrialEnd& end,
                TrialRecord& record) {
  RepeatRecord& repeat = record.repeats[part.repeat];
  const std::optional<RunStatus> status = read_status(run / kStatusFile);
  const RunHistory history = read_history(run);
  // A process that is killed after its results and before its status has finished.
  const bool has_ended =
      !status || status->state == RunStatus::State::finished || read_finished(run / "summary.json") == true;
  const int64_t last = history.validation.empty() ? 0 : history.validation.back().step;
  const int64_t step = has_ended ? last : status->pause_after.value_or(status->step);
  add_measurements(run, history, repeat);
  repeat.steps = status ? status->step : last;
  const std::optional<double> value = evaluated(plan, history, step);
  if (!value || !std::isfinite(*value)) {
    TrialEnd without = end;
    without.last_line =
        fmt::format("{} after step {} is {}", plan.metric(), step, value ? "not finite" : "not recorded");
    return fail(record, "numeric", without);
  }
  if (has_ended) {
    add_passed_rungs(plan, history, record, repeat);
    repeat.end = TrialValue{step, *value};
  } else if (repeat.rungs.size() < plan.rungs().size()) {
    repeat.rungs.push_back({step, *value});
  } else {
    // It should have trained to its end.
    if (++record.requeues > kMostRequeues) fail(record, "stopped", end);
  }
}

/// "" for an end that says nothing about the setting.
std::string reason_of(const TrialEnd& end) {
  if (end.was_late) return "timeout";
  if (end.lacked_memory && WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL) return "memory";
  if (!WIFEXITED(end.status)) return "";
  switch (static_cast<ExitCode>(WEXITSTATUS(end.status))) {
    case ExitCode::out_of_memory:
      return "memory";
    case ExitCode::internal:
      return "numeric";
    case ExitCode::data:
      return "data";
    case ExitCode::recipe:
      return "settings";
    case ExitCode::peer_lost:
      return end.lacked_memory ? "memory" : "";
    default:
      return "";
  }
}

/// Ends that concern the sweep, not the setting.
bool ends_sweep(int code) {
  const auto is = [code](ExitCode other) { return code == static_cast<int>(other); };
  return is(ExitCode::usage) || is(ExitCode::no_device) || is(ExitCode::io);
}

}  // namespace

TrialPart next_part(const SweepPlan& plan, const TrialRecord& record, size_t next) {
  TrialPart part{.repeat = 0, .rung = next};
  for (; part.repeat < record.repeats.size(); ++part.repeat) {
    const RepeatRecord& repeat = record.repeats[part.repeat];
    const bool is_there = repeat.end || (next < plan.rungs().size() && repeat.rungs.size() > next);
    if (!is_there) break;
  }
  if (part.repeat < record.repeats.size()) part.rung = record.repeats[part.repeat].rungs.size();
  return part;
}

fs::path run_of(const SweepPlan& plan, const fs::path& sweep, int64_t number, size_t repeat) {
  const fs::path directory = sweep / trial_name(number);
  return plan.repeats().size() == 1 ? directory : directory / std::to_string(repeat + 1);
}

std::vector<std::string> trial_command(const SweepPlan& plan, const std::string& program,
                                       const fs::path& sweep, const TrialRecord& record,
                                       const TrialPart& part, const TrialShare& share) {
  std::vector<std::string> line = {program, "train", "--config", plan.recipe().file()};
  const auto add = [&line](const std::vector<std::string>& words) {
    line.insert(line.end(), words.begin(), words.end());
  };
  add(plan.overrides());
  add(record.overrides);
  if (!plan.repeats()[part.repeat].empty()) line.push_back(plan.repeats()[part.repeat]);
  Value directory;
  directory.kind = Value::Kind::scalar;
  directory.text = run_of(plan, sweep, record.number, part.repeat).string();
  line.push_back("run.output_dir=" + to_flow(directory));
  if (share.threads > 0) line.push_back(fmt::format("device.threads={}", share.threads));
  if (share.memory) line.push_back(fmt::format("device.memory={}", *share.memory));
  if (share.gpu) line.push_back(fmt::format("device.index={}", *share.gpu));
  if (share.seconds) line.push_back(fmt::format("run.max_wall_time={}s", *share.seconds));
  const std::optional<Duration> pause = pause_of(plan, part);
  line.push_back("run.stop_after=" + (pause ? to_string(*pause) : "null"));
  return line;
}

int add_end(const SweepPlan& plan, const fs::path& sweep, const TrialPart& part, const TrialEnd& end,
            TrialRecord& record) {
  record.repeats[part.repeat].seconds += end.seconds;
  const bool has_exited = WIFEXITED(end.status);
  const int code = has_exited ? WEXITSTATUS(end.status) : 0;
  if (has_exited && code == 0) {
    add_values(plan, run_of(plan, sweep, record.number, part.repeat), part, end, record);
    return 0;
  }
  if (const std::string reason = reason_of(end); !reason.empty()) {
    fail(record, reason, end);
    return 0;
  }
  if (end.was_asked) return 0;
  // The program is gone, or cannot be loaded: it was built or installed anew.
  if (code == kProgramNotFound || code == kProgramNotFound - 1) return static_cast<int>(ExitCode::no_device);
  if (ends_sweep(code)) return code;
  if (!has_exited && ++record.kills >= kMostKills) fail(record, "killed", end);
  if (has_exited && ++record.requeues > kMostRequeues) fail(record, "stopped", end);
  return 0;
}

}  // namespace trainer
