// SPDX-License-Identifier: Apache-2.0
#include "core/session/session.h"

#include <fmt/format.h>

#include "core/host/process.h"
#include "core/host/slurm.h"
#include "core/host/time_limit.h"
#include "core/recipe/classes.h"
#include "core/recipe/feed.h"
#include "core/recipe/initial_weights.h"
#include "core/run/status.h"
#include "core/run/tuning_file.h"
#include "core/run/weights.h"
#include "core/session/report.h"
#include "core/train/device_samples.h"

namespace trainer {
namespace {

/// A file system that is shared may hold the lock of a node that was lost until it has missed the node.
constexpr std::chrono::seconds kPatienceAfterRestart(120);

/// How often a run looks whether its directory is still in place.
constexpr double kLookSeconds = 1;

/// Takes the device's memory. Where somebody else has taken what the plan counted on, says what would fit
/// now.
Executable open_executable(Recipe& recipe, const Backend& backend, const Job& job) {
  try {
    return Executable(job.plan, *backend.device, recipe.runtime.cuda_graph);
  } catch (const Error& problem) {
    if (problem.code() != ExitCode::out_of_memory) throw;
    throw Error(
        ExitCode::out_of_memory,
        fmt::format("{}; the plan needs {}:{}", problem.what(), human_bytes(job.memory.total()),
                    memory_advice(recipe, *backend.planner, job, available_bytes(recipe, *backend.planner))));
  }
}

/// What the first step of this process finds; returns what to log of it.
std::vector<std::string> fill(Executable& executable, const Recipe& recipe, const Job& job,
                              const Start& start) {
  initialize(executable, static_cast<uint64_t>(recipe.run.seed));
  if (start.from) {
    load_checkpoint(executable, start.from->checkpoint, guards_of(recipe, start));
    return {};
  }
  std::vector<std::string> lines = load_initial_weights(recipe, executable);
  if (job.settings.averages) start_averages(executable);
  return lines;
}

/// What an earlier process has found counts against the budget as well.
void count_unreadable(DataSource& source, const LoopState& earlier, const std::string& split) {
  const auto found = earlier.unreadable.find(split);
  if (found != earlier.unreadable.end()) source.count_unreadable(found->second);
}

/// What all parts of a run need.
struct Parts {
  Recipe& recipe;
  const Backend& backend;
  const Job& job;
  const Tuning& tuning;
  const Start& start;
  RunDirectory& directory;
  StopSignals& signals;
  TimeLimit& limit;
  Progress& progress;
  Log& log;
};

void warn_of(const std::string& trouble, const Parts& run) {
  if (!trouble.empty()) run.log.warn(trouble);
}

/// Where the process before this one began here as well, and was killed before it could save.
void warn_of_no_progress(const Parts& run) {
  const std::optional<RunStatus> last = read_status(run.directory.file(kStatusFile));
  if (!last || last->state != RunStatus::State::running || last->began_at != run.start.step()) return;
  warn_of(run.limit.was_too_short(), run);
}

/// Logs how the run starts; `other_data` and `loaded` are what its parts have said of themselves.
void announce_start(const Parts& run, const DataSource& train, const std::optional<std::string>& other_data,
                    const std::vector<std::string>& loaded) {
  announce(run.recipe, run.job, *run.backend.planner, run.directory, run.start, run.tuning, run.log);
  if (other_data) run.log.warn(*other_data);
  for (const std::string& line : loaded) run.log.info(line);
  if (run.start.from) return;
  const Program forward = forward_program(run.recipe, Purpose::evaluate);
  if (const auto note = unused_outputs(run.recipe, forward, train)) run.log.warn(*note);
}

/// All steps are done: writes the results.
void finish(const Parts& run, const Executable& executable, const TrainingLoop& loop,
            const LoopResult& result, const UnreadableList& unreadable, const StoredMetadata& about) {
  const RunDirectory& directory = run.directory;
  directory.require_in_place();
  save_weights(executable, directory.file(kModelFile), about);
  if (run.job.settings.averages) save_averages(executable, directory.file(kAveragesFile), about);
  write_summary(directory.file("summary.json"),
                summary_of(run.recipe, run.job, loop.state(), result, unreadable.size()));
  run.log.info(closing_line(run.job, loop.state(), result));
  if (!result.throttling.empty()) run.log.warn("the device was " + result.throttling);
  run.log.info(fmt::format("results are in {}", directory.path().string()));
}

/// Runs the loop to its end, and says in the directory what has become of the run. One that ends early,
/// perhaps for too many unreadable samples, still names those it found.
ExitCode conclude(const Parts& run, const Executable& executable, TrainingLoop& loop,
                  const Checkpoints& checkpoints, UnreadableList& unreadable, StatusKeeper& status,
                  const StoredMetadata& about) try {
  status.running(run.start.step());
  const std::string stopped_for = loop.run(run.start.from ? run.start.from->state.loop : LoopState{});
  const LoopResult result = loop.result();
  if (stopped_for.empty()) {
    finish(run, executable, loop, result, unreadable, about);
    return status.end(RunStatus::State::finished, loop.state().step, ExitCode::done, "");
  }
  run.log.info(fmt::format("saved after step {} of {}; start the same command again to resume",
                           loop.state().step, run.job.settings.steps));
  const bool came_further =
      loop.state().step > run.start.step() || loop.state().validated > run.start.validated();
  if (!run.signals.asked() && !came_further) warn_of(run.limit.too_short(checkpoints.longest_seconds()), run);
  return status.end(RunStatus::State::saved, loop.state().step, ExitCode::requeue, stopped_for);
} catch (const std::exception& problem) {
  run.directory.require_in_place();  // otherwise that is the reason, and no place for what follows
  const Failure failure = failure_of(problem);
  status.end(RunStatus::State::failed, loop.state().step, failure.code, failure.text);
  unreadable.report();
  throw;
}

/// Trains in a directory that is this process's own now.
ExitCode train(const Parts& run, int64_t profiled_steps) {
  Recipe& recipe = run.recipe;
  const Job& job = run.job;
  const RunDirectory& directory = run.directory;
  const std::filesystem::path list = directory.file("bad_samples.txt");
  const Feed train_feed = open_feed(recipe, job, *run.backend.device, Split::train, list);
  const RunState lasting = lasting_state(recipe, *run.backend.planner, run.tuning, *train_feed.source);
  const std::optional<std::string> other_data = require_same_data(recipe, run.start, lasting.data);
  require_steps_left(recipe, run.start, job.settings.steps);
  const Feed validation_feed = open_feed(recipe, job, *run.backend.device, Split::val, list);
  Executable executable = open_executable(recipe, run.backend, job);
  executable.on_failed_capture([&](const std::string& reason) { run.log.warn(uncaptured(reason)); });
  const std::vector<std::string> loaded = fill(executable, recipe, job, run.start);
  std::optional<DeviceSamples> samples;
  if (job.program.find(input_name::kSampleNumbers) != kNone)
    samples.emplace(executable, *train_feed.source, validation_feed.source.get());

  run.directory.begin(recipe.to_yaml(false), run.start.step(), run.start.validated(), run.log);
  if (recipe.runtime.autotune) save_tuning(run.tuning, directory.file(kTuningFile));
  announce_start(run, *train_feed.source, other_data, loaded);
  MetricsSinks metrics(directory.path(), recipe.logging.formats, validation_metrics(job.settings),
                       [&](const std::string& problem) { run.log.warn(problem); });
  UnreadableList unreadable(list, run.log, run.start.from.has_value());
  for (const auto& [split, feed] : {std::pair{"train", &train_feed}, std::pair{"val", &validation_feed}}) {
    if (!feed->source) continue;
    unreadable.watch(*feed->source, split);
    if (run.start.from && !other_data) count_unreadable(*feed->source, run.start.from->state.loop, split);
  }
  Trace trace(directory.file("trace.json"), profiled_steps);
  Checkpoints checkpoints(executable, checkpoint_root(directory.path()), job.checkpoints, job.settings,
                          lasting, run.log, [&] {
                            metrics.sync();
                            directory.require_in_place();
                          });
  checkpoints.begin_at(run.start.step(), guards_of(recipe, run.start));
  if (run.start.from && run.start.is_own) checkpoints.go_on_from(run.start.from->state);
  warn_of_no_progress(run);
  StatusKeeper status(directory.file(kStatusFile), job.settings.steps, run.start.step());
  OneRank ranks;
  TrainingLoop loop(executable, ranks, *train_feed.pipeline, validation_feed.pipeline.get(), job.settings,
                    {.metrics = metrics,
                     .progress = run.progress,
                     .log = run.log,
                     .unreadable = unreadable,
                     .on_step =
                         [&, next = 0.0](int64_t step) mutable {
                           if (const double now = steady_seconds(); now >= next) {
                             next = now + kLookSeconds;
                             directory.require_in_place();
                           }
                           status.running(step);
                         },
                     .trace = profiled_steps > 0 ? &trace : nullptr},
                    &checkpoints, [&] {
                      if (run.signals.asked()) return run.signals.name();
                      return run.limit.reason(checkpoints.longest_seconds());
                    });
  run.signals.watch_loop();
  return conclude(run, executable, loop, checkpoints, unreadable, status, lasting.about);
}

}  // namespace

ExitCode run_session(Recipe& recipe, const OpenDevice& open_device, StopSignals& signals, Progress& progress,
                     const SessionOptions& options) {
  signals.set_grace(recipe.run.grace_period);
  Log log(progress);
  TimeLimit limit(recipe.run.max_wall_time, log);
  signals.end_after(limit.seconds_left());
  require_data(recipe);
  // The process that was started before this one may still save.
  if (slurm_has_restarted()) await_free(recipe.output_directory(), kPatienceAfterRestart, log);
  const Start start = choose_start(recipe);
  keep_micro_batch(recipe, start);
  Tuning tuning = earlier_tuning(recipe, start.from ? &*start.from : nullptr);
  const DeviceChoice choice = choose_device(recipe, start.from ? &*start.from : nullptr);
  log.info(fmt::format("device: {} ({})", choice.type, choice.reason));
  const Backend backend = open_device(recipe, tuning, choice);
  set_precision(recipe, *backend.planner);
  const Job job = make_fitting_job(recipe, *backend.planner, {.disabled_passes = options.disabled_passes});
  require_memory(recipe, *backend.planner, job);

  RunDirectory directory(recipe.output_directory(), recipe.identity(), recipe.run.allow_changes);
  if (directory.state() == RunDirectory::State::finished) {
    log.info(fmt::format("this run is finished; its results are in {}", directory.path().string()));
    return ExitCode::done;
  }
  require_unchanged(recipe, start);
  require_whole(recipe, start);
  require_rollbacks(recipe, start);
  return train({recipe, backend, job, tuning, start, directory, signals, limit, progress, log},
               options.profiled_steps);
}

}  // namespace trainer
