// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>

#include "apps/trainer/commands.h"
#include "apps/trainer/devices.h"
#include "apps/trainer/standard_streams.h"
#include "core/host/limits.h"
#include "core/ranks/launch.h"
#include "core/recipe/assemble.h"
#include "core/session/membership.h"
#include "core/session/session.h"

namespace trainer {
namespace {

/// 1 for a process that a launcher has started: it is one of the launcher's ranks.
int64_t ranks_to_start(const std::shared_ptr<const Recipe>& recipe) {
  if (!launched_as().is_alone()) return 1;
  const RunSpec spec = planned_spec(recipe);
  if (spec.ranks() > 1) check_network(spec);
  return spec.ranks();
}

/// GPUs of this host need no launcher.
bool needs_launcher(const Recipe& recipe) {
  const ParallelismSection& how = recipe.parallelism;
  return how.hosts || how.launcher != "auto" || choose_device(recipe.device).type != "cuda";
}

}  // namespace

int train_command(const Arguments& arguments) {
  StopSignals signals;
  std::shared_ptr<const Recipe> recipe = Recipe::load(arguments.config, arguments.overrides);
  if (arguments.dump_config) {
    print_to_output(recipe->to_yaml(true));
    return 0;
  }
  if (const int64_t ranks = ranks_to_start(recipe); ranks > 1) {
    std::vector<std::string> command = arguments.command_line;
    if (!needs_launcher(*recipe)) {
      recipe.reset();
      return launch_on_gpus(ranks, command);
    }
    // Ranks on several hosts divide the cores of their own.
    if (recipe->device.threads == 0 && !recipe->parallelism.hosts)
      command.push_back(fmt::format("device.threads={}", shared_by(ranks, thread_limit(1)).value));
    const LaunchRequest request{
        .ranks = ranks,
        .command = std::move(command),
        .launcher = recipe->parallelism.launcher,
        .hosts = recipe->parallelism.hosts ? recipe->parallelism.hosts->resolved : ""};
    const Restarts restarts{.most = recipe->run.max_restarts,
                            .of_stops = !recipe->run.max_wall_time && std::getenv("SLURM_JOB_ID") == nullptr,
                            .warn = [](const std::string& text) { print_warning(text); }};
    recipe.reset();
    return launch_ranks(request, restarts);
  }
  Progress progress({.fd = STDERR_FILENO, .terminal = Progress::for_terminal(STDERR_FILENO)});
  return static_cast<int>(run_session(
      recipe, open_to_train, signals, progress,
      {.disabled_passes = arguments.disabled_passes, .profiled_steps = arguments.profiled_steps}));
}

}  // namespace trainer
