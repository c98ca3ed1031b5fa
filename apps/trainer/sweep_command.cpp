// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "apps/trainer/commands.h"
#include "apps/trainer/devices.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/host/gpus.h"
#include "core/host/limits.h"
#include "core/host/stop.h"
#include "core/recipe/memory_fit.h"
#include "core/session/membership.h"
#include "core/sweep/sweep_worker.h"

namespace trainer {
namespace {

/// Of each rank of a trial: those of the recipe, or its part of all there are.
int64_t threads_of_trial(const SweepPlan& plan, const std::shared_ptr<const Recipe>& recipe) {
  if (recipe->device.threads > 0) return recipe->device.threads;
  return shared_by(plan.section().parallel * planned_spec(recipe).ranks(), thread_limit(1)).value;
}

SweepMachine machine_of(const SweepPlan& plan, const std::shared_ptr<const Recipe>& recipe,
                        const std::string& program) {
  SweepMachine machine{.program = program};
  const int64_t parallel = plan.section().parallel;
  const DeviceSection& device = plan.recipe().device;
  if (choose_device(device).type == "cuda") {
    machine.gpus = parallel > 1 ? visible_gpus() : 0;
    if (parallel > 1 && planned_spec(recipe).ranks() > 1) {
      fail_at(plan.recipe().origin_of("sweep.parallel"),
              "a trial of several ranks takes all GPUs: train one at a time, sweep.parallel=1");
    }
  } else if (parallel > 1) {
    machine.memory = memory_limit(parallel).value;
    if (device.memory) machine.memory = std::min(*machine.memory, device.memory->bytes);
  }
  return machine;
}

/// The plan of a known setting, or why it has none.
std::string planned_memory(const SweepPlan& plan, const TrialSetting& setting) try {
  const RunSpec spec(plan.with(setting.overrides));
  Tuning tuning;
  const Backend backend =
      open_device(spec, tuning, choose_device(spec.recipe().device, nullptr, false), Use::plan);
  set_precision(spec, *backend.planner);
  const Job job = make_fitting_job(spec, *backend.planner);
  return fmt::format("{:>10} {:>9}", human_bytes(job.memory.total()),
                     job.settings.steps > 0 ? fmt::format("{}", job.settings.steps) : "?");
} catch (const Error& problem) {
  return "  " + one_line(problem.what());
}

/// --plan: the trials known beforehand.
int print_plan(const SweepPlan& plan) {
  std::string text = fmt::format("{:>5} {:>10} {:>9}  {}\n", "trial", "memory", "steps", "settings");
  int64_t known = 0;
  for (int64_t number = 0; number < plan.trials(); ++number) {
    if (!plan.is_fixed(number)) continue;
    ++known;
    const TrialSetting setting = plan.setting(number, {}, {});
    text += fmt::format("{:>5} {}  {}\n", number, planned_memory(plan, setting),
                        setting.overrides.empty()
                            ? "as written"
                            : one_line(fmt::format("{}", fmt::join(setting.overrides, " "))));
  }
  if (known < plan.trials())
    text += fmt::format("{} more follow from the results before them\n", plan.trials() - known);
  if (plan.repeats().size() > 1)
    text += fmt::format("each trains {} times: {}\n", plan.repeats().size(),
                        one_line(fmt::format("{}", fmt::join(plan.repeats(), ", "))));
  for (const Duration& rung : plan.rungs())
    text += fmt::format("at {} the best {} of {} go on\n", to_string(rung), 1, plan.section().halving_factor);
  print_to_output(text);
  return 0;
}

}  // namespace

int sweep_command(const Arguments& arguments) {
  require_one_process("a sweep");
  const StopSignals signals;
  const SweepPlan plan({.path = arguments.config}, arguments.overrides);
  if (arguments.sweep_plan) return print_plan(plan);
  Progress progress({.fd = STDERR_FILENO, .terminal = Progress::for_terminal(STDERR_FILENO)});
  Log log(progress);
  TimeLimit limit(plan.recipe().run.max_wall_time, log);
  const auto recipe = RecipeSource{.path = arguments.config}.load(arguments.overrides);
  SweepDirectory directory(plan, threads_of_trial(plan, recipe));
  log.info(fmt::format("sweep of {} trials in {}, {} at once with {} threads each", plan.trials(),
                       one_line(directory.path().string()), plan.section().parallel, directory.threads()));
  SweepWorker worker(plan, directory, machine_of(plan, recipe, arguments.command_line.at(0)), limit, log);
  return worker.run();
}

}  // namespace trainer
