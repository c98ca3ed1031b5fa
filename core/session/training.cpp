// SPDX-License-Identifier: Apache-2.0
#include "core/session/training.h"

#include <fmt/format.h>

#include <limits>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/data/images/class_counts.h"
#include "core/engine/broadcast_state.h"
#include "core/engine/group_operations.h"
#include "core/host/limits.h"
#include "core/host/process.h"
#include "core/recipe/about.h"
#include "core/recipe/classes.h"
#include "core/recipe/feed.h"
#include "core/recipe/initial_weights.h"
#include "core/recipe/memory_fit.h"
#include "core/recipe/teacher.h"
#include "core/run/best_weights.h"
#include "core/run/status.h"
#include "core/run/tuning_file.h"
#include "core/run/weights.h"
#include "core/session/device.h"
#include "core/session/machine.h"
#include "core/session/rank_checkpoints.h"
#include "core/session/report.h"
#include "core/session/tracking.h"
#include "core/storage/atomic_file.h"
#include "core/train/device_samples.h"
#include "core/train/loop.h"
#include "core/train/replicas.h"

namespace trainer {
namespace {

/// How often a run checks that its directory is still in place.
constexpr double kLookSeconds = 1;

/// Reads the files of the tensors with which the first step starts; returns what to log.
std::vector<std::string> load(Executable& executable, const Job& job, const Start& start,
                              OtherImages& images) {
  OtherImages* others = StateImage::is_divided(job.plan) ? &images : nullptr;
  if (!start.from) return load_initial_weights(job.spec.recipe(), executable, others);
  load_checkpoint(executable, start.from->checkpoint, guards_of(job.spec, start), others);
  return {};
}

/// Whether it reads any; the same on all ranks.
bool reads_files(const Job& job, const Start& start) {
  return start.from || job.spec.recipe().model.initial_weights;
}

/// Gives all ranks what rank 0 has read.
void share_state(ProcessGroup& group, Executable& executable, const Job& job, const Start& start) {
  broadcast_state(group, executable);
  if (!start.from && job.settings.averages) start_averages(executable);
}

void warn_of(const std::string& trouble, const RunParts& run) {
  if (!trouble.empty()) run.log.warn(trouble);
}

/// Warns if the previous process also started here, and was killed before it could save.
void warn_of_no_progress(const RunParts& run) {
  const std::optional<RunStatus> last = read_status(run.directory.file(kStatusFile));
  if (!last || last->state != RunStatus::State::running || last->began_at != run.start.step()) return;
  warn_of(run.limit.was_too_short(), run);
}

/// Names the classes without samples of validation, if images have labels.
std::string unvalidated(const Machine& machine) {
  const auto* train = dynamic_cast<const ImageSource*>(machine.train.source.get());
  const auto* validation = dynamic_cast<const ImageSource*>(machine.validation.source.get());
  if (train == nullptr || validation == nullptr) return "";
  return unvalidated_classes(class_counts(*train), class_counts(*validation), train->class_names());
}

/// Logs how the run starts, with what its parts report (`other_data`, `loaded`).
void announce_start(const RunParts& run, const Machine& machine, const std::optional<std::string>& other_data,
                    const std::vector<std::string>& loaded) {
  announce(run.job, *run.backend.planner, run.directory, run.start, run.tuning, run.log);
  if (other_data) run.log.warn(*other_data);
  for (const std::string& line : loaded) run.log.info(line);
  warn_of(unvalidated(machine), run);
  if (run.start.from) return;
  if (const auto note = unused_outputs(run.job.spec, *machine.train.source)) run.log.warn(*note);
}

/// Writes the confusion matrix of the last evaluation, if a metric is a function of it. A failure does not
/// end the run.
void save_confusion(const RunDirectory& directory, int64_t step, const Evaluation& evaluation,
                    const std::vector<std::string>& class_names, Log& log) try {
  const auto matrices = evaluation.matrices();
  if (matrices.empty()) return;
  Json json = {{"step", step}};
  for (const auto& [prefix, matrix] : matrices) json[prefix + "confusion"] = to_json(*matrix, class_names);
  write_atomically(directory.file("confusion.json"), json.dump(-1, Json::NotUtf8::replace) + "\n");
} catch (const Error& problem) {
  log.warn(problem.what());
}

/// All steps are done: writes the results.
void finish(const RunParts& run, const TrainingLoop& loop, const LoopResult& result,
            const BestEvaluation& best, const UnreadableList& unreadable) {
  const RunDirectory& directory = run.directory;
  directory.require_held();
  keep_final_weights(directory.path(), loop.state().step, run.job.settings.averages);
  write_summary(directory.file("summary.json"),
                summary_of(run.job, loop.state(), result, best, unreadable.size()));
  run.log.info(closing_line(run.job, loop.state(), result, best));
  announce_time(result, run.log);
  run.log.info(fmt::format("results are in {}", one_line(directory.path().string())));
  const bool has_best = !best.metric.empty() && is_there(directory.file(kBestFile));
  const std::filesystem::path weights = directory.file(has_best ? kBestFile : kModelFile);
  run.log.info(fmt::format("{} weights: {}", has_best ? "best" : "final", one_line(weights.string())));
  for (const std::string& command : next_commands(run.job, directory.path()))
    run.log.info("  " + one_line(command));
}

/// Warns the next process that checkpoints since the last comparison may hold wrong weights. A failure to
/// write that does not keep it from resuming.
void note_wrong_weights(const RunParts& run, const std::exception& problem) try {
  if (dynamic_cast<const ReplicasDiffer*>(&problem) != nullptr)
    note_difference(checkpoint_root(run.directory.path()), problem.what());
} catch (const std::exception& other) {
  run.log.warn(other.what());
}

/// Runs the loop to its end, and writes the run's end to its directory. A run that ends early, perhaps
/// because of too many unreadable samples, still names those it found.
ExitCode conclude(const RunParts& run, TrainingLoop& loop, const Checkpoints& checkpoints,
                  UnreadableList& unreadable, StatusKeeper& status) try {
  status.running(run.start.step());
  const LoopEnd end = loop.run(run.start.from ? run.start.from->state.loop : LoopState{});
  const LoopResult result = loop.result();
  for (const std::string& remark : run.backend.device->remarks()) run.log.warn(remark);
  // The others wait, so a failure here ends all of them.
  run_on_all(run.membership.group(), [&] {
    if (end.what == LoopEnd::What::done) finish(run, loop, result, checkpoints.best(), unreadable);
  });
  if (end.what == LoopEnd::What::done)
    return status.end(RunStatus::State::finished, loop.state().step, ExitCode::done,
                      ending_of(run.job, loop.state()));
  if (end.what == LoopEnd::What::paused) {
    const std::string text = pause_text(run.job, loop.state());
    run.log.info(text);
    return status.end(RunStatus::State::paused, loop.state().step, ExitCode::done, text);
  }
  run.log.info(fmt::format("saved after step {} of {}; start the same command again to resume",
                           loop.state().step, run.job.settings.steps));
  const bool came_further =
      loop.state().step > run.start.step() || loop.state().validated > run.start.validated();
  if (!run.signals.asked() && !came_further) warn_of(run.limit.too_short(checkpoints.longest_seconds()), run);
  return status.end(RunStatus::State::saved, loop.state().step, ExitCode::requeue, end.reason);
} catch (const std::exception& problem) {
  run.directory.require_in_place();  // otherwise that is the reason, and no place for what follows
  note_wrong_weights(run, problem);
  const Failure failure = run.membership.failure_of(problem);
  status.end(RunStatus::State::failed, loop.state().step, failure.code, failure.text);
  unreadable.report();
  throw;
}

/// Tells the tracker of the run's end, whatever it is.
template <class Work>
ExitCode with_tracker(RunTracker& tracker, const Work& work) try {
  tracker.begin();
  const ExitCode code = work();
  tracker.finish();
  return code;
} catch (const std::exception&) {
  tracker.finish();
  throw;
}

/// Samples that an earlier process could not read count against the budget as well.
void count_unreadable(Machine& machine, const LoopState& earlier) {
  for (const auto& [split, feed] :
       {std::pair{"train", &machine.train}, std::pair{"val", &machine.validation}}) {
    const auto found = earlier.unreadable.find(split);
    if (feed->source && found != earlier.unreadable.end()) feed->source->count_unreadable(found->second);
  }
}

/// Every rank reads its own copy of the samples.
void require_same_samples(const Membership& membership, const Machine& machine) {
  membership.require_same_samples(*machine.train.source, "train");
  if (machine.validation.source) membership.require_same_samples(*machine.validation.source, "val");
}

}  // namespace

ExitCode train(const RunParts& run, int64_t profiled_steps) {
  const Job& job = run.job;
  const RunSpec& spec = job.spec;
  const RunDirectory& directory = run.directory;
  const std::filesystem::path list = directory.file("bad_samples.txt");
  Machine machine;
  RunState lasting;
  std::optional<std::string> other_data;
  std::vector<std::string> loaded;
  std::optional<DeviceSamples> samples;
  RemoteImages others(run.membership);
  run_on_all(run.membership.group(), [&] { machine = open_machine(run.backend, job, list); });
  run_on_all(run.membership.group(), [&] {
    const DataSource& source = *machine.train.source;
    lasting = lasting_state(spec, *run.backend.planner, run.tuning, source, machine.validation.source.get());
    add_class_weights(lasting.about, job.balanced_weights);
    other_data = require_same_data(spec, run.start, lasting.data);
    require_same_teacher(spec, run.start, lasting.teacher);
    require_steps_left(spec, run.start, job.settings.steps);
    machine.executable->on_warning([&](const std::string& text) { run.log.warn(text); });
    loaded = load(*machine.executable, job, run.start, others);
    if (const std::string text = load_teacher(spec, *machine.executable); !text.empty())
      loaded.push_back(text);
    if (job.program.find(input_name::kSampleNumbers) != kNone)
      samples.emplace(*machine.executable, source, machine.validation.source.get());
    if (run.start.from && !other_data) count_unreadable(machine, run.start.from->state.loop);
    run.directory.begin(spec.recipe().to_yaml(false), run.start.step(), run.start.validated(), run.log);
  });
  Executable& executable = *machine.executable;
  require_same_samples(run.membership, machine);
  share_state(run.membership.group(), executable, job, run.start);
  if (run.tuning.times_all || !run.tuning.fastest.empty())
    save_tuning(run.tuning, directory.file(kTuningFile));
  announce_start(run, machine, other_data, loaded);
  MetricsSinks metrics(directory.path(), spec.recipe().logging.formats, validation_metrics(job.settings),
                       [&](const std::string& problem) { run.log.warn(problem); });
  RunTracker tracker(directory, spec.recipe().logging,
                     std::chrono::seconds(spec.recipe().parallelism.timeout.seconds) / 2, run.log);
  UnreadableList unreadable(list, run.log, run.start.from.has_value());
  for (const auto& [split, feed] :
       {std::pair{"train", &machine.train}, std::pair{"val", &machine.validation}}) {
    if (feed->source) unreadable.watch(*feed->source, split);
  }
  Trace trace(directory.file("trace.json"), profiled_steps);
  const auto require_held = [&] { directory.require_held(); };
  Checkpoints checkpoints(
      executable, checkpoint_root(directory.path()), job.checkpoints, job.settings, lasting, run.log,
      [&] {
        metrics.sync();
        directory.require_in_place();
      },
      require_held, &others);
  checkpoints.begin_at(run.start.step(), guards_of(spec, run.start));
  if (run.start.from && run.start.is_own) checkpoints.go_on_from(*run.start.from);
  checkpoints.save_first_by(run.limit.first_save());
  run.limit.expect_saves_of(Checkpoints::checkpoint_bytes(job.plan));
  warn_of_no_progress(run);
  StatusKeeper status(directory.file(kStatusFile), job.settings.steps, run.start.step(),
                      job.settings.pause_after);
  if (run.membership.has_peers()) {
    status.ask_ranks([&] {
      run.membership.write_logs();
      return run.membership.ranks();
    });
    run.membership.keep_logs(directory.path());
  }
  RankCheckpoints shared(run.membership, executable, &checkpoints, nullptr, job.checkpoints);
  const auto on_evaluation = [&, names = machine.train.source->class_names()](int64_t step,
                                                                              const Evaluation& evaluation) {
    directory.require_in_place();
    save_confusion(directory, step, evaluation, names, run.log);
  };
  TrainingLoop loop(executable, run.membership.group(), *machine.train.pipeline,
                    machine.validation.pipeline.get(), job.settings,
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
                           tracker.report();
                         },
                     .trace = profiled_steps > 0 ? &trace : nullptr,
                     .on_evaluation = on_evaluation},
                    &shared, [&] {
                      if (run.signals.asked()) return run.signals.name();
                      return run.limit.reason(checkpoints.longest_seconds());
                    });
  run.signals.watch_loop();
  return with_tracker(tracker, [&] { return conclude(run, loop, checkpoints, unreadable, status); });
}

ExitCode follow(const Backend& backend, const Job& job, const Start& start, const Membership& membership,
                StopSignals& signals, Log& log, int64_t profiled_steps) {
  Machine machine;
  std::optional<OwnImage> image;
  run_on_all(membership.group(), [&] {
    machine = open_machine(backend, job, {});
    machine.executable->on_warning([&](const std::string& text) { log.warn(text); });
    image.emplace(membership, *machine.executable, job.checkpoints);
    if (reads_files(job, start)) image->take();
  });
  barrier(membership.group());  // rank 0 has read its files
  if (reads_files(job, start)) image->restore();
  require_same_samples(membership, machine);
  share_state(membership.group(), *machine.executable, job, start);
  UnreadableList unreadable({}, log);
  for (const auto& [split, feed] :
       {std::pair{"train", &machine.train}, std::pair{"val", &machine.validation}}) {
    if (feed->source) unreadable.watch(*feed->source, split);
  }
  MetricsSinks metrics;
  Trace trace({}, profiled_steps);
  Progress silent({.fd = -1, .plain_interval_s = std::numeric_limits<double>::infinity()});
  RankCheckpoints checkpoints(membership, *machine.executable, nullptr, &*image, job.checkpoints);
  TrainingLoop loop(*machine.executable, membership.group(), *machine.train.pipeline,
                    machine.validation.pipeline.get(), job.settings,
                    {.metrics = metrics,
                     .progress = silent,
                     .log = log,
                     .unreadable = unreadable,
                     .trace = profiled_steps > 0 ? &trace : nullptr},
                    &checkpoints, [&] { return signals.asked() ? signals.name() : std::string(); });
  signals.watch_loop();
  const LoopEnd end = loop.run(start.from ? start.from->state.loop : LoopState{});
  barrier(membership.group());
  return end.what == LoopEnd::What::stopped ? ExitCode::requeue : ExitCode::done;
}

}  // namespace trainer
