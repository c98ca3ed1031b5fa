// SPDX-License-Identifier: Apache-2.0
#include "core/session/session.h"

#include <fmt/format.h>

#include "core/base/printable.h"
#include "core/engine/group_operations.h"
#include "core/host/processors.h"
#include "core/host/slurm.h"
#include "core/host/time_limit.h"
#include "core/recipe/about.h"
#include "core/recipe/memory_fit.h"
#include "core/session/membership.h"
#include "core/session/settings.h"
#include "core/session/training.h"

namespace trainer {
namespace {

/// A shared file system may hold the lock of a lost node until it notices the loss.
constexpr std::chrono::seconds kRestartTimeout(120);

/// The start of the run that rank 0 has chosen.
Start shared_start(const RunSpec& spec, const Membership& membership) {
  Start start;
  const std::string state = broadcast_from_rank_0(membership.group(), [&] {
    start = choose_start(spec);
    return start.from ? to_json(start.from->state) : "";
  });
  if (!membership.is_rank_0() && !state.empty())
    start.from = {.state = parse_run_state(state, "rank 0's checkpoint")};
  return start;
}

void say_finished(const std::filesystem::path& directory, Log& log) {
  log.info(fmt::format("this run is finished; its results are in {}", one_line(directory.string())));
}

/// The run's directory, on rank 0. Nothing if the run is finished.
std::unique_ptr<RunDirectory> open_directory(const RunSpec& spec, const Start& start, Log& log) {
  const Recipe& recipe = spec.recipe();
  auto directory =
      std::make_unique<RunDirectory>(recipe.output_directory(), recipe.identity(), recipe.run.allow_changes);
  if (directory->state() == RunDirectory::State::finished) {
    say_finished(directory->path(), log);
    return nullptr;
  }
  require_unchanged(spec, start);
  require_whole(spec, start);
  require_rollbacks(spec, start);
  return directory;
}

/// Runs this rank's part.
ExitCode run_rank(const RunSpec& given, const OpenDevice& open_device, StopSignals& signals,
                  Progress& progress, const SessionRequest& request, const Membership& membership) {
  ProcessGroup& all = membership.group();
  require_same_settings(given, request, all);
  Log log(progress, membership.prefix());
  membership.pass_on(log);
  TimeLimit limit(given.recipe().run.max_wall_time, log);
  signals.end_after(limit.seconds_left());
  run_on_all(all, [&] { require_data(given.recipe()); });
  // The previous process may still be saving.
  if (membership.is_rank_0() && slurm_has_restarted())
    await_free(given.recipe().output_directory(), kRestartTimeout, log);
  const Start start = shared_start(given, membership);
  if (start.from) use_preparation(given.recipe(), start.from->state.about);
  const RunSpec resumed = with_earlier_micro_batch(given, start);
  const ResumePoint* from = start.from ? &*start.from : nullptr;
  Tuning tuning = earlier_tuning(resumed, from);
  std::optional<Backend> backend;
  std::optional<Job> job;
  std::string first_device;  // of rank 0
  const auto prepare = [&](const RunSpec& spec) {
    DeviceChoice choice = choose_device(spec.recipe().device, from);
    if (membership.has_peers()) choice.threads = threads_of(spec.recipe().device, spec.ranks_on_host());
    choice.local_rank = membership.local_rank();
    membership.require_device(choice.type, membership.is_rank_0() ? choice.type : first_device);
    first_device = choice.type;
    log.info(fmt::format("device: {} ({})", choice.type, choice.reason));
    log.info("host: " + host_text(choice, spec.ranks_on_host()));
    backend = open_device(spec, tuning, choice, membership.has_peers() ? &all : nullptr);
    set_precision(spec, *backend->planner);
    job = make_fitting_job(spec, *backend->planner, {.disabled_passes = request.disabled_passes});
    require_memory(*backend->planner, *job);
  };
  // The others take over what rank 0 has timed and tried.
  const std::string choices = broadcast_from_rank_0(all, [&] {
    prepare(resumed);
    return to_json(RunState{.micro_batch_size = job->spec.batch().micro_batch,
                            .facts = {{fact_name::kDevice, first_device}},
                            .algorithms = tuning.fastest});
  });
  run_on_all(all, [&] {
    if (membership.is_rank_0()) return;
    const RunState first = parse_run_state(choices, "what rank 0 has chosen");
    tuning.fastest = first.algorithms;
    first_device = first.facts.at(fact_name::kDevice);
    prepare(resumed.with_micro_batch(first.micro_batch_size));
  });
  membership.require_same_plan(job->plan, job->program, backend->planner->facts());
  membership.require_same_borders(job->plan, job->spec.mesh());
  all.arrange(job->spec.mesh());
  backend->device->join_ranks();
  std::unique_ptr<RunDirectory> directory;
  const std::string finished = broadcast_from_rank_0(all, [&] {
    directory = open_directory(job->spec, start, log);
    return directory ? "" : "finished";
  });
  if (!finished.empty()) {
    signals.ignore();  // MPICH's launcher may end the last rank by TERM
    if (request.profiled_steps > 0 && membership.is_rank_0())
      log.warn("a finished run has no steps left to profile; train another one: run.output_dir=PATH");
    return ExitCode::done;
  }
  if (!membership.is_rank_0())
    return follow(*backend, *job, start, membership, signals, log, request.profiled_steps);
  return train({*backend, *job, tuning, start, membership, *directory, signals, limit, progress, log},
               request.profiled_steps);
}

}  // namespace

ExitCode run_session(std::shared_ptr<const Recipe> recipe, const OpenDevice& open_device,
                     StopSignals& signals, Progress& progress, const SessionRequest& request) {
  signals.set_grace(recipe->run.grace_period);
  const RankIdentity identity = launched_as();
  // Before anything takes memory, which comes from the NUMA node of the thread that first writes to it.
  const std::optional<std::string> unbound = bind_to_share(identity.local_rank, identity.local_ranks);
  if (unbound) Log(progress, fmt::format("[rank {}] ", identity.rank)).warn(*unbound);
  const RunSpec spec = launched_spec(std::move(recipe), identity);
  const Membership membership(spec, identity);
  if (membership.is_finished()) {
    Log log(progress, membership.prefix());
    if (membership.is_rank_0()) say_finished(spec.recipe().output_directory(), log);
    return ExitCode::done;
  }
  try {
    return run_rank(spec, open_device, signals, progress, request, membership);
  } catch (const std::exception& problem) {
    signals.ignore();  // a launcher ends the other ranks as soon as one has left
    membership.leave_with(problem);
    throw;
  }
}

}  // namespace trainer
