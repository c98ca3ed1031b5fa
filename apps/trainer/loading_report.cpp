// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/loading_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/trainer/time_report.h"
#include "core/base/printable.h"
#include "core/train/device_samples.h"

namespace trainer {
namespace {

/// Of all ranks; nothing if it is not predicted, or if no samples are made meanwhile.
std::optional<double> loaded_per_second(const Planner& planner, const Job& job) {
  const std::optional<StepCost> step = step_cost(planner, job);
  if (!step || DeviceSamples::device_bytes(job.plan) > 0) return std::nullopt;
  // Ranks that compute a sample together make it each.
  return static_cast<double>(job.spec.batch().global_batch * job.spec.mesh().tensor *
                             job.spec.mesh().stages) /
         step->seconds();
}

/// Threads that make samples if the run is started here.
int64_t workers_here(const Job& job) {
  return std::max<int64_t>(1, job.settings.data_workers) * job.spec.ranks();
}

}  // namespace

std::optional<int64_t> cores_to_load(std::optional<double> samples_per_second, const Arguments& arguments) {
  if (!samples_per_second || arguments.decode_rate <= 0) return std::nullopt;
  const double cores = std::ceil(*samples_per_second / arguments.decode_rate);
  return static_cast<int64_t>(std::min(cores, 1e15));
}

std::string loading_text(const Planner& planner, const Job& job, const Arguments& arguments) {
  const std::optional<double> speed = loaded_per_second(planner, job);
  if (!speed) return "";
  if (const std::optional<int64_t> cores = cores_to_load(speed, arguments)) {
    return fmt::format(
        "\nloading: {:.0f} samples/s need {} core{} that make {:g} samples/s each (--decode-rate); "
        "data.workers would be {} here\n",
        *speed, *cores, *cores == 1 ? "" : "s", arguments.decode_rate, workers_here(job));
  }
  const Recipe& recipe = job.spec.recipe();
  if (!recipe.data.chosen_format().reads_files() || recipe.model.kind() == InputKind::tokens) return "";
  return fmt::format(
      "\nloading: whether the processor can make {:.0f} samples/s is not known; measure a core with `trainer "
      "data stats --time --config {}`, then plan with --decode-rate\n",
      *speed, one_line(arguments.config));
}

std::string loading_warning(const Planner& planner, const Job& job, const Arguments& arguments) {
  const std::optional<double> speed = loaded_per_second(planner, job);
  const std::optional<int64_t> cores = cores_to_load(speed, arguments);
  const int64_t workers = workers_here(job);
  if (!cores || *cores <= workers) return "";
  return fmt::format(
      "the GPU would wait for data: {} of this machine could make {:.0f} samples/s, {:.0f} % of what it "
      "computes",
      workers == 1 ? "a worker" : fmt::format("{} workers", workers),
      static_cast<double>(workers) * arguments.decode_rate,
      100 * static_cast<double>(workers) * arguments.decode_rate / *speed);
}

void add_loading(const Planner& planner, const Job& job, const Arguments& arguments, Json& report) {
  const std::optional<double> speed = loaded_per_second(planner, job);
  const std::optional<int64_t> cores = cores_to_load(speed, arguments);
  if (!cores) return;
  report["loading"] = {{"samples_per_second", *speed},
                       {"samples_per_second_of_a_core", arguments.decode_rate},
                       {"cores", *cores},
                       {"workers_here", workers_here(job)}};
}

}  // namespace trainer
