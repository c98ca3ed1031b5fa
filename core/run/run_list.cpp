// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_list.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <deque>

#include "core/base/directory.h"
#include "core/base/regular_file.h"
#include "core/metrics/metrics.h"
#include "core/run/run_lock.h"
#include "core/run/run_settings.h"
#include "core/run/status.h"
#include "core/storage/checkpoint.h"
#include "core/tasks/task.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// The throughput is the median of this many intervals: the first ones of a run are slow.
constexpr size_t kIntervals = 100;

bool is_anything(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(fs::symlink_status(path, ignored));
}

/// One file less is known of a run if it cannot be read; the others are read all the same.
template <class Read>
void read_or_note(RunOverview& run, const Read& read) {
  try {
    read();
  } catch (const Error& problem) {
    run.problems.emplace_back(problem.what());
  }
}

/// Whether a process holds the run; nothing if that cannot be found out, as on some network file systems.
std::optional<bool> is_held(const fs::path& directory) {
  const fs::path lock = directory / kLockFile;
  if (!is_anything(lock)) return false;
  const FileDescriptor file = open_regular(lock, O_RDONLY, Links::refuse);
  if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0) return false;
  return errno == EWOULDBLOCK ? std::optional(true) : std::nullopt;
}

int64_t modified(const fs::path& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? int64_t{status.st_mtime} : 0;
}

/// Reads metrics.jsonl. It mostly contains training intervals; only the last ones are parsed.
class MetricsReader {
 public:
  /// `metric`: the name of the one that ranks evaluations; the first metric if empty.
  MetricsReader(RunOverview& run, std::string metric) : run_(run), metric_(std::move(metric)) {}

  void read(const fs::path& path) {
    read_lines(path, Links::refuse, [&](const std::string& line, bool) {
      if (line.find(R"("split":"train")") == std::string::npos) {
        take_validation(line);
      } else {
        training_.push_back(line);
        if (training_.size() > kIntervals) training_.pop_front();
      }
    });
    take_training();
  }

 private:
  /// A line may be half written, or another program's: it is skipped.
  void take_validation(const std::string& line) {
    const std::optional<MetricsRecord> record = parse_record(line);
    if (!record || record->split != "validation") return;
    run_.step = std::max(run_.step, record->step);
    const auto [name, number] = deciding(*record);
    const double value = to_double(number);
    run_.metric = name;
    const std::optional<Direction> direction = direction_of(name);
    run_.larger_is_better = direction == Direction::larger;
    if (!direction || !std::isfinite(value) || record->event == kUndecided) return;
    if (run_.best && !is_better(*direction, value, *run_.best)) return;
    run_.best = value;
    run_.best_step = record->step;
  }

  std::pair<std::string, Number> deciding(const MetricsRecord& record) const {
    for (const auto& metric : record.metrics)
      if (metric.first == metric_) return metric;
    if (record.metrics.empty() || metric_ == "loss") return {"loss", record.loss};
    return record.metrics[0];
  }

  void take_training() {
    std::vector<double> speeds;
    for (const std::string& line : training_) {
      const std::optional<MetricsRecord> record = parse_record(line);
      if (!record) continue;
      run_.step = std::max(run_.step, record->step);
      run_.loss = record->loss;
      if (record->samples_per_s) speeds.push_back(*record->samples_per_s);
      run_.ranks = std::max<int64_t>(1, static_cast<int64_t>(number_in(*record, "world_size").value_or(1)));
      run_.on_gpu = number_in(*record, "host_ms").has_value();
    }
    if (speeds.empty()) return;
    const auto middle = speeds.begin() + static_cast<int64_t>(speeds.size() / 2);
    std::nth_element(speeds.begin(), middle, speeds.end());
    run_.samples_per_s = *middle;
  }

  RunOverview& run_;
  std::string metric_;
  std::deque<std::string> training_;
};

/// The run's checkpoint.keep_best; empty if it has none, or its recipe cannot be read.
std::string kept_metric(const fs::path& directory) try {
  const Settings settings = read_settings(directory);
  const auto found = settings.find("checkpoint.keep_best");
  return found == settings.end() ? "" : found->second;
} catch (const Error&) {
  return "";
}

RunCondition state_of(std::optional<bool> held, const std::optional<RunStatus>& status, bool finished) {
  // Held: started again, whatever the last process has left.
  if (held == true) return RunCondition::running;
  if (!status) return finished ? RunCondition::finished : RunCondition::lost;
  const bool may_run = status->state == RunStatus::State::running && !held.has_value();
  return may_run ? RunCondition::running : ended_condition(*status);
}

/// Whether it is, or was once, a run's directory.
bool is_run(const fs::path& directory) {
  return std::ranges::any_of(
      std::initializer_list<const char*>{"identity.json", kStatusFile, "metrics.jsonl"},
      [&](const char* name) { return is_file(directory / name); });
}

void search(const fs::path& directory, int depth, std::vector<RunOverview>& runs) {
  if (std::optional<RunOverview> run = look_at_run(directory)) {
    runs.push_back(std::move(*run));
    return;
  }
  if (depth == 0) return;
  std::error_code ignored;  // a directory that may not be read, or is gone meanwhile
  for (const DirectoryEntry& entry : directory_entries(directory, ignored)) {
    const bool hidden = entry.path().filename().string().starts_with('.');
    if (!hidden && !entry.is_symlink() && entry.is_directory()) search(entry.path(), depth - 1, runs);
  }
}

}  // namespace

RunCondition ended_condition(const RunStatus& status) {
  switch (status.state) {
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
  return RunCondition::lost;
}

std::string_view to_string(RunCondition state) {
  switch (state) {
    case RunCondition::finished:
      return "finished";
    case RunCondition::saved:
      return "saved";
    case RunCondition::paused:
      return "paused";
    case RunCondition::failed:
      return "failed";
    case RunCondition::running:
      return "running";
    case RunCondition::lost:
      return "lost";
  }
  return "";
}

std::optional<RunOverview> look_at_run(const fs::path& directory) {
  if (!is_run(directory)) return std::nullopt;
  RunOverview run{.directory = directory};
  std::optional<RunStatus> status;
  std::optional<bool> held;
  bool finished = false;
  read_or_note(run, [&] { require_regular(directory / "identity.json", Links::refuse); });
  read_or_note(run, [&] { status = read_status(directory / kStatusFile); });
  read_or_note(run, [&] { finished = read_finished(directory / "summary.json") == true; });
  read_or_note(run, [&] { held = is_held(directory); });
  run.state = state_of(held, status, finished);
  read_or_note(run, [&] { MetricsReader(run, kept_metric(directory)).read(directory / "metrics.jsonl"); });
  const std::vector<fs::path> checkpoints = list_checkpoints(directory / "checkpoints");
  if (!checkpoints.empty()) run.step = std::max(run.step, checkpoint_step(checkpoints.front()));
  run.updated = std::max(modified(directory / "metrics.jsonl"), modified(directory / "identity.json"));
  if (status) {
    run.step = std::max(run.step, status->step);
    run.steps = status->steps;
    run.rank_states = status->ranks;
    run.updated = std::max(run.updated, status->updated);
    // The end of an earlier process says nothing about the one that runs now.
    const bool ended = run.state != RunCondition::running && run.state != RunCondition::lost;
    if (ended) run.exit_code = status->exit_code, run.message = status->message;
  } else if (run.state == RunCondition::finished) {
    run.steps = run.step;
  }
  return run;
}

std::vector<RunOverview> list_runs(const fs::path& root) {
  std::error_code error;
  directory_entries(root, error);
  if (error) throw io_error(root, "opening the directory", error.value());
  std::vector<RunOverview> runs;
  search(root, kRunSearchDepth, runs);
  std::ranges::sort(runs, {}, &RunOverview::directory);
  return runs;
}

}  // namespace trainer
