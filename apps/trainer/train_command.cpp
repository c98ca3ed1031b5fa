// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <unistd.h>

#include "apps/trainer/commands.h"
#include "apps/trainer/devices.h"
#include "apps/trainer/standard_streams.h"
#include "core/host/limits.h"
#include "core/ranks/launch.h"
#include "core/session/membership.h"
#include "core/session/session.h"

namespace trainer {

int train_command(const Arguments& arguments) {
  StopSignals signals;
  std::shared_ptr<const Recipe> recipe = Recipe::load(arguments.config, arguments.overrides);
  if (arguments.dump_config) {
    print_to_output(recipe->to_yaml(true));
    return 0;
  }
  // A process that a launcher started is one of its ranks.
  if (const int64_t ranks = launched_as().is_alone() ? planned_spec(recipe).ranks() : 1; ranks > 1) {
    std::vector<std::string> command = arguments.command_line;
    if (choose_device(recipe->device).type == "cuda") {
      recipe.reset();
      return launch_on_gpus(ranks, command);
    }
    if (recipe->device.threads == 0)
      command.push_back(fmt::format("device.threads={}", shared_by(ranks, thread_limit(1)).value));
    recipe.reset();
    return launch_ranks(ranks, command);
  }
  Progress progress({.fd = STDERR_FILENO, .terminal = Progress::for_terminal(STDERR_FILENO)});
  const auto open = [](const RunSpec& spec, Tuning& tuning, const DeviceChoice& device, ProcessGroup* group) {
    return open_device(spec, tuning, device, Use::train, group);
  };
  return static_cast<int>(run_session(
      recipe, open, signals, progress,
      {.disabled_passes = arguments.disabled_passes, .profiled_steps = arguments.profiled_steps}));
}

}  // namespace trainer
