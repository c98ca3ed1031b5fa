// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "apps/trainer/commands.h"
#include "apps/trainer/devices.h"
#include "core/recipe/feed.h"
#include "core/recipe/job.h"
#include "core/train/run_directory.h"
#include "core/train/tuning_file.h"
#include "core/train/weights.h"

namespace trainer {
namespace {

int64_t parameter_count(const Program& program) {
  int64_t count = 0;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::parameter) count += numel(tensor.spec.shape);
  }
  return count;
}

void announce(const Recipe& recipe, const Job& job, const Backend& backend, const RunDirectory& directory,
              Log& log) {
  const TrainingSection& training = recipe.training;
  log.info(fmt::format("run {} in {}", recipe.run.name, directory.path().string()));
  log.info(fmt::format("{} parameters, {} steps of {} samples{}, on {}, memory {} planned",
                       parameter_count(job.program), job.settings.steps, training.global_batch_size,
                       training.micro_batches() > 1
                           ? fmt::format(" ({} x {})", training.micro_batches(), training.micro_batch())
                           : "",
                       backend.name(), human_bytes(job.memory.total())));
  if (job.found_micro_batch) {
    log.info(fmt::format("training.micro_batch_size=auto is {}: the largest divisor of {} whose plan fits",
                         training.micro_batch(), training.global_batch_size));
  }
  if (directory.state() == RunDirectory::State::unfinished) {
    log.warn("an earlier run of this recipe was not finished; it starts again from step 0");
  }
}

Summary summary_of(const Recipe& recipe, const Job& job, const LoopResult& result,
                   const UnreadableList& unreadable) {
  Summary summary = {{"finished", true},
                     {"run.name", recipe.run.name},
                     {"steps", job.settings.steps},
                     {"training.loss", result.train_loss},
                     {"training.seconds", result.training_seconds},
                     {"training.first_step_seconds", result.first_step_seconds},
                     {"data.unreadable_samples", unreadable.size()},
                     {"memory.planned_bytes", job.memory.total()},
                     {"memory.peak_bytes", peak_resident_bytes()}};
  if (result.joules_per_sample > 0)
    summary.emplace_back("device.joules_per_sample", result.joules_per_sample);
  if (result.device_memory_bytes > 0) summary.emplace_back("device.memory_bytes", result.device_memory_bytes);
  if (!result.throttling.empty()) summary.emplace_back("device.throttling", result.throttling);
  for (const auto& [name, value] : result.last) summary.emplace_back("validation.last." + name, value);
  for (const auto& [name, value] : result.best) summary.emplace_back("validation.best." + name, value);
  return summary;
}

/// A run that ends early, perhaps for too many unreadable samples, still names those it found.
LoopResult run_loop(TrainingLoop& loop, UnreadableList& unreadable) {
  try {
    return loop.run();
  } catch (...) {
    unreadable.report();
    throw;
  }
}

/// Takes the device's memory. Where somebody else has taken what the plan counted on, says what would fit
/// now.
Executable open_executable(Recipe& recipe, Backend& backend, const Job& job) {
  try {
    return Executable(job.plan, backend, recipe.runtime.cuda_graph);
  } catch (const Error& problem) {
    if (problem.code() != ExitCode::out_of_memory) throw;
    throw Error(ExitCode::out_of_memory,
                fmt::format("{}; the plan's {}:{}", problem.what(), human_bytes(job.memory.total()),
                            memory_advice(recipe, backend, job, available_bytes(recipe, backend))));
  }
}

/// Trains in a directory that is this process's own now.
void train(Recipe& recipe, Backend& backend, const Job& job, const Tuning& tuning, RunDirectory& directory,
           Progress& progress, Log& log, int64_t profiled_steps) {
  const std::filesystem::path list = directory.file("bad_samples.txt");
  const Feed train_feed = open_feed(recipe, job, backend, Split::train, list);
  const Feed validation_feed = open_feed(recipe, job, backend, Split::val, list);
  Executable executable = open_executable(recipe, backend, job);
  initialize(executable, static_cast<uint64_t>(recipe.run.seed));
  if (recipe.model.initial_weights) load_weights(executable, *recipe.model.initial_weights);
  if (job.settings.averages) start_averages(executable);

  directory.begin(recipe.to_yaml(false), log);
  if (recipe.runtime.autotune) save_tuning(tuning, directory.file(kTuningFile));
  announce(recipe, job, backend, directory, log);
  MetricsWriter metrics(directory.file("metrics.jsonl"));
  UnreadableList unreadable(list, log);
  for (const Feed* feed : {&train_feed, &validation_feed}) {
    if (feed->source) unreadable.watch(*feed->source);
  }
  Trace trace(directory.file("trace.json"), profiled_steps);
  TrainingLoop loop(executable, *train_feed.pipeline, validation_feed.pipeline.get(), job.settings,
                    {.metrics = metrics,
                     .progress = progress,
                     .log = log,
                     .unreadable = unreadable,
                     .trace = profiled_steps > 0 ? &trace : nullptr});
  const LoopResult result = run_loop(loop, unreadable);
  save_weights(executable, directory.file("model.safetensors"));
  if (job.settings.averages) save_averages(executable, directory.file("model_ema.safetensors"));
  write_summary(directory.file("summary.json"), summary_of(recipe, job, result, unreadable));

  std::string text =
      fmt::format("done: {} steps in {}", job.settings.steps, human_seconds(result.training_seconds));
  for (const auto& [name, value] : result.last) text += fmt::format(", validation {} {:.4f}", name, value);
  log.info(text);
  if (!result.throttling.empty()) log.warn("the device was " + result.throttling);
  log.info(fmt::format("results are in {}", directory.path().string()));
}

}  // namespace

int train_command(const Arguments& arguments) {
  const std::unique_ptr<Recipe> recipe = Recipe::load(arguments.config, arguments.overrides);
  if (arguments.dump_config) {
    fmt::print("{}", recipe->to_yaml(true));
    return 0;
  }
  require_data(*recipe);
  Tuning tuning = earlier_tuning(*recipe);
  const std::unique_ptr<Backend> backend = open_device(*recipe, tuning, Use::train);
  set_precision(*recipe, *backend);
  const Job job = make_fitting_job(*recipe, *backend, {.disabled_passes = arguments.disabled_passes});
  require_memory(*recipe, *backend, job);

  Progress progress({.fd = STDERR_FILENO, .terminal = Progress::for_terminal(STDERR_FILENO)});
  Log log(progress);
  RunDirectory directory(recipe->output_directory(), recipe->identity());
  if (directory.state() == RunDirectory::State::finished) {
    log.info(fmt::format("this run is finished; its results are in {}", directory.path().string()));
    return 0;
  }
  train(*recipe, *backend, job, tuning, directory, progress, log, arguments.profiled_steps);
  return 0;
}

}  // namespace trainer
