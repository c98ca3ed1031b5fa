// SPDX-License-Identifier: Apache-2.0
#include "core/sweep/sweep_worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/base/units.h"
#include "core/host/cgroup.h"
#include "core/host/slurm.h"
#include "core/run/run_directory.h"
#include "core/storage/atomic_file.h"
#include "core/sweep/sweep_table.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using What = TrialState::What;

/// How often records and locks of other processes are looked at.
constexpr std::chrono::milliseconds kLook(300);
/// A process that trains is ended before others when memory runs out.
constexpr int kTrialOomScore = 500;
constexpr size_t kMostLastLine = 300;
/// Of its time limit: with less than this nothing is started.
constexpr double kLeastSeconds = 20;
/// A shared file system may hold the locks of a lost node until it notices the loss.
constexpr std::chrono::seconds kLostNode(120);

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The last line of a file that says something, from `begin` on.
std::string last_line(const fs::path& path, int64_t begin) {
  std::string last;
  int64_t at = 0;
  read_lines(path, Links::refuse, [&](const std::string& line, bool) {
    if (at >= begin && !line.empty()) last = line;
    at += std::ssize(line) + 1;
  });
  return one_line(last.substr(0, kMostLastLine));
}

/// The identity of the run that trains a part; nothing if the recipe refuses its settings.
std::optional<RunIdentity> identity_of_part(const SweepPlan& plan, const TrialRecord& record,
                                            const TrialPart& part) try {
  std::vector<std::string> words = record.overrides;
  if (!plan.repeats()[part.repeat].empty()) words.push_back(plan.repeats()[part.repeat]);
  return plan.with(words)->identity();
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace

SweepWorker::SweepWorker(const SweepPlan& plan, SweepDirectory& directory, SweepMachine machine,
                         TimeLimit& limit, Log& log)
    : plan_(plan),
      directory_(directory),
      machine_(std::move(machine)),
      limit_(limit),
      log_(log),
      children_(SIGINT),
      limit_seconds_(limit.seconds_left()) {}

int SweepWorker::run() try {
  while (work()) {
  }
  if (children_.were_interrupted_twice()) return 128 + SIGINT;
  if (children_.were_asked() || is_over_) {
    log_.info("the trials are saved; start the same command again to go on");
    return static_cast<int>(ExitCode::requeue);
  }
  if (code_ != 0) return code_;
  look();
  tell_decisions();
  return is_done() ? finish() : 0;
} catch (...) {
  // Its trials are saved: an error here is not theirs.
  constexpr std::chrono::seconds kPatience(30);
  children_.send_signal(SIGUSR1);
  children_.await_all(kPatience);
  throw;
}

/// Returns false when nothing is left to do.
bool SweepWorker::work() {
  if (limit_seconds_ > 0 && active_.empty() && limit_.seconds_left() < kLeastSeconds) is_over_ = true;
  if (!stops() && std::ssize(active_) < plan_.section().parallel) start_ready();
  if (active_.empty() && (stops() || is_done() || !is_needed())) return false;
  const Clock::time_point begin = Clock::now();
  const auto free = static_cast<double>(plan_.section().parallel - std::ssize(active_));
  if (const std::optional<ChildEnd> end = children_.await_any(kLook)) take(*end);
  idle_ += free * seconds_since(begin);
  total_ += static_cast<double>(plan_.section().parallel) * seconds_since(begin);
  return true;
}

void SweepWorker::look() {
  records_ = directory_.records([this](const std::string& text) { log_.warn(text); });
  states_ = sweep_state(plan_, records_);
}

/// Halving decides about a trial when all before it have come to the rung, which may be much later.
void SweepWorker::tell_decisions() {
  std::erase_if(undecided_, [this](int64_t number) {
    const TrialState& state = states_[static_cast<size_t>(number)];
    if (state.what == What::dropped)
      log_.info(fmt::format("trial {} is dropped at {}: not among the best 1/{}", number,
                            to_string(plan_.rungs()[state.next]), plan_.section().halving_factor));
    return state.is_decided();
  });
}

/// The lowest trials that are ready and that nobody has.
void SweepWorker::start_ready() {
  look();
  tell_decisions();
  remove_checkpoints();
  for (int64_t number = 0; number < plan_.trials() && std::ssize(active_) < plan_.section().parallel;
       ++number) {
    const bool is_own =
        std::ranges::any_of(active_, [&](const auto& each) { return each.second.record.number == number; });
    if (is_own || states_[static_cast<size_t>(number)].what != What::ready) continue;
    if (start(number)) number = -1;  // a trial that has begun may make others ready
  }
}

/// False if another process has it, or had it a moment ago.
bool SweepWorker::start(int64_t number) {
  std::optional<TrialLock> lock = TrialLock::take(directory_.path(), number);
  if (!lock) return false;
  look();
  const TrialState& state = states_[static_cast<size_t>(number)];
  if (state.what != What::ready) return false;
  TrialRecord record{.number = number};
  if (const auto found = records_.find(number); found != records_.end()) {
    record = found->second;
  } else {
    const bool learns = !plan_.is_fixed(number);
    TrialSetting setting = plan_.setting(
        number, learns ? observations_before(plan_, records_, states_, number) : std::vector<Observation>{},
        directory_.known());
    record.overrides = std::move(setting.overrides);
    record.texts = std::move(setting.texts);
  }
  record.repeats.resize(plan_.repeats().size());
  const TrialPart part = next_part(plan_, record, state.next);
  Active trial{.lock = *std::move(lock), .record = std::move(record), .part = part};
  trial.identity = identity_of_part(plan_, trial.record, part);
  if (recipe_has_changed()) return false;
  write_trial(directory_.path(), trial.record);
  start_part(std::move(trial));
  look();
  return true;
}

/// A trial reads the recipe's file, which somebody may edit meanwhile: its results would be another sweep's.
bool SweepWorker::recipe_has_changed() {
  std::string what;
  try {
    if (plan_.is_unchanged()) return false;
    what = "its settings are others";
  } catch (const Error& problem) {
    what = one_line(problem.what());
  }
  if (code_ == 0) {
    code_ = static_cast<int>(ExitCode::recipe);
    log_.error(
        fmt::format("{} has changed since the sweep began: {}; restore it to go on, or sweep in another "
                    "run.output_dir",
                    one_line(plan_.recipe().file()), what));
    children_.send_signal(SIGUSR1);
  }
  return true;
}

/// Whether a trial has read the recipe's file after somebody had edited it. Its run is put aside.
bool SweepWorker::is_of_another_recipe(const Active& trial) {
  const fs::path run = run_of(plan_, directory_.path(), trial.record.number, trial.part.repeat);
  const std::optional<RunIdentity> stored = stored_identity(run);
  if (!stored || !trial.identity || forbidden_differences(*trial.identity, *stored, {}).empty()) return false;
  fs::path aside = run.string() + ".edited";
  for (int i = 2; fs::exists(aside); ++i) aside = fmt::format("{}.edited{}", run.string(), i);
  fs::rename(run, aside);
  if (code_ == 0) {
    code_ = static_cast<int>(ExitCode::recipe);
    log_.error(
        fmt::format("{} was edited while trial {} began; its run is kept in {}; restore the recipe and start "
                    "the same command again",
                    one_line(plan_.recipe().file()), trial.record.number, one_line(aside.string())));
    children_.send_signal(SIGUSR1);
  }
  return true;
}

/// A kill that is explained explains no other one.
void SweepWorker::share_kills() {
  const int64_t kills = cgroup_memory_kills();
  for (auto& [child, trial] : active_) trial.memory_kills = kills;
}

void SweepWorker::start_part(Active trial) {
  trial.slot = free_slot();
  TrialShare share{.threads = directory_.threads(), .memory = machine_.memory};
  if (machine_.gpus > 0) share.gpu = trial.slot % machine_.gpus;
  if (plan_.recipe().run.max_wall_time)
    share.seconds = std::max<int64_t>(1, static_cast<int64_t>(limit_.seconds_left()));
  const std::vector<std::string> line =
      trial_command(plan_, machine_.program, directory_.path(), trial.record, trial.part, share);
  trial.log = directory_.path() / (trial_name(trial.record.number) + ".log");
  const FileDescriptor output = open_regular(trial.log, O_WRONLY | O_CREAT | O_APPEND, Links::refuse);
  trial.log_begin = file_bytes(output.get(), trial.log);
  trial.begin = Clock::now();
  trial.memory_kills = cgroup_memory_kills();
  ChildStart start{.line = line,
                   .output = output.get(),
                   .errors = output.get(),
                   .oom_score = kTrialOomScore,
                   .inherited = {trial.lock.descriptor()}};
  if (const std::optional<TimeSpan> limit = plan_.section().trial_timeout) {
    const double left = static_cast<double>(limit->seconds) - trial.record.repeats[trial.part.repeat].seconds;
    start.deadline = std::chrono::seconds(std::max<int64_t>(1, static_cast<int64_t>(left)));
  }
  const bool ends = trial.part.rung >= plan_.rungs().size();
  const std::string until = ends ? "the end" : to_string(plan_.rungs()[trial.part.rung]);
  log_.info(fmt::format(
      "trial {}{} trains to {}{}", trial.record.number,
      plan_.repeats().size() > 1 ? fmt::format("/{}", trial.part.repeat + 1) : "", until,
      trial.record.overrides.empty()
          ? ", as written"
          : fmt::format(": {}", one_line(fmt::format("{}", fmt::join(trial.record.overrides, " "))))));
  undecided_.insert(trial.record.number);
  active_.emplace(children_.start(start), std::move(trial));
}

void SweepWorker::take(const ChildEnd& end) {
  const auto found = active_.find(end.child);
  Active trial = std::move(found->second);
  active_.erase(found);
  const int code_of_trial = WIFEXITED(end.status) ? WEXITSTATUS(end.status) : 0;
  // A trial whose time is over shares the limit with this process.
  const bool is_late = limit_seconds_ > 0 && limit_.seconds_left() < limit_seconds_ / 2;
  if (is_late && code_of_trial == static_cast<int>(ExitCode::requeue)) is_over_ = true;
  const TrialEnd how{.status = end.status,
                     .was_late = end.was_late,
                     .lacked_memory = cgroup_memory_kills() > trial.memory_kills,
                     .was_asked = stops(),
                     .seconds = seconds_since(trial.begin),
                     .last_line = last_line(trial.log, trial.log_begin)};
  if (how.lacked_memory) share_kills();
  const bool blames_recipe = code_of_trial == static_cast<int>(ExitCode::recipe) ||
                             code_of_trial == static_cast<int>(ExitCode::data);
  if (is_of_another_recipe(trial) || (blames_recipe && recipe_has_changed())) return;
  const int code = add_end(plan_, directory_.path(), trial.part, how, trial.record);
  write_trial(directory_.path(), trial.record);
  if (code != 0 && code_ == 0) {
    code_ = code;
    log_.error(fmt::format("trial {} ended with exit code {}, as all others would: {}", trial.record.number,
                           code, how.last_line));
    children_.send_signal(SIGUSR1);
  }
  tell(trial);
}

void SweepWorker::tell(const Active& trial) const {
  const TrialRecord& record = trial.record;
  if (record.failure) {
    log_.info(
        fmt::format("trial {}: {}: {}", record.number, record.failure->reason, record.failure->message));
    return;
  }
  const RepeatRecord& repeat = record.repeats[trial.part.repeat];
  if (repeat.end) {
    log_.info(fmt::format("trial {}: {} at the end, step {}", record.number,
                          value_text(plan_, repeat.end->value, 0), repeat.end->step));
  } else if (!repeat.rungs.empty() && repeat.rungs.size() > trial.part.rung) {
    log_.info(fmt::format("trial {}: {} after step {}", record.number,
                          value_text(plan_, repeat.rungs.back().value, 0), repeat.rungs.back().step));
  }
}

/// Metrics stay.
void SweepWorker::remove_checkpoints() {
  for (const int64_t number : trials_without_checkpoints(plan_, states_)) {
    if (without_checkpoints_.contains(number)) continue;
    const std::optional<TrialLock> lock = TrialLock::take(directory_.path(), number);
    if (!lock) continue;
    without_checkpoints_.insert(number);
    for (size_t repeat = 0; repeat < plan_.repeats().size(); ++repeat) {
      std::error_code kept;  // they only take room
      fs::remove_all(run_of(plan_, directory_.path(), number, repeat) / "checkpoints", kept);
    }
  }
}

bool SweepWorker::is_done() const {
  return std::ranges::all_of(states_, &TrialState::is_decided);
}

/// Whether a trial may become ready that no sweep trains. After the loss of its node a process waits until
/// the file system has noticed that too.
bool SweepWorker::is_needed() {
  for (int64_t number = 0; number < std::ssize(states_); ++number) {
    if (states_[static_cast<size_t>(number)].is_decided() || TrialLock::is_owned(directory_.path(), number))
      continue;
    unneeded_.reset();
    return true;
  }
  if (!unneeded_) unneeded_ = Clock::now();
  if (slurm_has_restarted() && Clock::now() - *unneeded_ < kLostNode) return true;
  log_.info("other processes train the last trials");
  return false;
}

/// Of GPUs.
int64_t SweepWorker::free_slot() const {
  int64_t slot = 0;
  while (std::ranges::any_of(active_, [&](const auto& each) { return each.second.slot == slot; })) ++slot;
  return slot;
}

int SweepWorker::finish() {
  remove_checkpoints();
  const std::vector<SweepRow> rows = sweep_rows(plan_, records_, states_);
  write_atomically(directory_.path() / "sweep.csv", sweep_csv(plan_, rows));
  const std::optional<int64_t> best = best_trial(plan_, states_);
  if (total_ > 0)
    log_.info(fmt::format("idle {:.0f} % of the time, waiting for earlier trials", 100 * idle_ / total_));
  if (!best) {
    throw Error(ExitCode::internal, fmt::format("no trial has a value; {} says why",
                                                one_line((directory_.path() / "sweep.csv").string())));
  }
  const TrialState& state = states_[static_cast<size_t>(*best)];
  write_atomically(directory_.path() / "best.yaml",
                   best_recipe(plan_, records_.at(*best), state, directory_.threads()));
  log_.info(fmt::format("best: trial {}, {}: {}", *best, value_text(plan_, *state.value, state.spread),
                        records_.at(*best).overrides.empty()
                            ? "the recipe as written"
                            : one_line(fmt::format("{}", fmt::join(records_.at(*best).overrides, " ")))));
  for (const char* file : {"sweep.csv", "best.yaml"})
    log_.info("  " + one_line((directory_.path() / file).string()));
  log_.info("  trainer report " + one_line(directory_.path().string()));
  return 0;
}

}  // namespace trainer
