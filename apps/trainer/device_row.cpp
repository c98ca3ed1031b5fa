// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/device_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "apps/trainer/device_models.h"
#include "apps/trainer/devices.h"
#include "apps/trainer/run_table.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/time_report.h"
#include "core/base/printable.h"
#include "core/config/old_keys.h"
#include "core/recipe/memory_fit.h"
#include "core/session/device.h"
#include "core/session/membership.h"
#include "core/train/device_samples.h"

namespace trainer {
namespace {

constexpr size_t kKeysShown = 3;
constexpr double kSecondsOfHour = 3600, kWattsOfKilowatt = 1000;

std::optional<double> product(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(*a * *b) : std::nullopt;
}

std::vector<std::string> overrides_for(const Arguments& arguments, const std::string& name) {
  std::vector<std::string> overrides = arguments.overrides;
  if (name == kCpu) {
    overrides.insert(overrides.end(), {"device.type=cpu", "device.model=auto"});
  } else {
    overrides.insert(overrides.end(), {"device.type=cuda", "device.model=" + name});
  }
  return overrides;
}

/// Those that the job knows, or if the data is missing those that the recipe says in batches or tokens.
int64_t steps_of(const Job& job) {
  const Duration& duration = job.spec.recipe().training.max_duration;
  if (job.settings.steps > 0 || duration.unit == Duration::Unit::epochs) return job.settings.steps;
  return batches_in(duration, {.tokens = job.spec.tokens_of_batch()});
}

/// Warns if the run's network or precision was another one, as its speed then says little.
void compare_settings(const Recipe& recipe, const std::filesystem::path& run) {
  Settings own;
  Diagnostics ignored;
  for (const auto& [path, value] : leaves(parse_yaml(recipe.to_yaml(false), "", ignored))) {
    const Leaf leaf = under_new_name({path, value});
    own[leaf.path] = leaf.value;
  }
  const auto affects_speed = [](const std::string& key) {
    return key.starts_with("model.") || key == "training.precision" || key == "training.global_batch_size";
  };
  std::vector<std::string> keys = differing_keys({read_settings(run), own});
  std::erase_if(keys, [&](const std::string& key) { return !affects_speed(key); });
  if (keys.empty()) return;
  const size_t shown = std::min(keys.size(), kKeysShown);
  print_warning(
      fmt::format("{} was trained with another {}{}: its speed may not be that of this recipe",
                  one_line(run.string()), fmt::join(keys.begin(), keys.begin() + shown, ", "),
                  keys.size() > shown ? fmt::format(" and {} more keys", keys.size() - shown) : ""));
}

/// The speed of a run on another kind of device, or on more of them, would be taken for this device's.
void require_same_devices(const RunOverview& run, const std::string& directory, const DeviceRow& row) {
  const bool is_gpu = row.name != kCpu;
  if (run.on_gpu != is_gpu) {
    throw Error(ExitCode::usage,
                fmt::format("--measured {}: it ran on a {}, so it says nothing about {}; name "
                            "its device, as in --measured {}={}",
                            one_line(directory), run.on_gpu ? "GPU" : "CPU", one_line(row.name),
                            run.on_gpu ? "h100" : kCpu, one_line(directory)));
  }
  if (run.ranks != row.devices) {
    throw Error(
        ExitCode::usage,
        fmt::format("--measured {}: it ran on {} rank{}, the plan has {}; plan with parallelism.data={}, "
                    "or measure a run with as many",
                    one_line(directory), run.ranks, run.ranks == 1 ? "" : "s", row.devices, run.ranks));
  }
}

double measured_speed(const Recipe& recipe, const DeviceRow& row) {
  const std::string& directory = row.measured_in;
  const RunOverview run = run_in(directory);
  constexpr double kSlowest = 1e-9, kFastest = 1e15;
  if (!run.samples_per_s || !(*run.samples_per_s >= kSlowest && *run.samples_per_s <= kFastest)) {
    throw Error(ExitCode::data, fmt::format("{}: its metrics.jsonl has no samples_per_s that a device can "
                                            "reach; train for a few times the batches of "
                                            "logging.interval first",
                                            one_line(directory)));
  }
  require_same_devices(run, directory, row);
  compare_settings(recipe, directory);
  return *run.samples_per_s;
}

}  // namespace

std::optional<double> DeviceRow::step_seconds() const {
  return samples_per_second ? std::optional(static_cast<double>(global_batch) / *samples_per_second)
                            : std::nullopt;
}

std::optional<double> DeviceRow::hours() const {
  if (steps == 0 || !fits()) return std::nullopt;
  return product(step_seconds(), static_cast<double>(steps) / kSecondsOfHour);
}

std::optional<double> DeviceRow::kilowatt_hours() const {
  return product(product(hours(), watts), static_cast<double>(devices) / kWattsOfKilowatt);
}

std::optional<double> DeviceRow::cost() const {
  return product(product(hours(), price), static_cast<double>(devices));
}

DeviceRow plan_device(const Arguments& arguments, const std::string& name, const Prices& prices,
                      const MeasuredRuns& measured) {
  const std::shared_ptr<const Recipe> recipe = Recipe::load(arguments.config, overrides_for(arguments, name));
  const RunSpec spec = planned_spec(recipe);
  Tuning tuning = earlier_tuning(spec);
  const std::string type = name == kCpu ? "cpu" : "cuda";
  const Backend backend = open_device(spec, tuning, {.type = type}, Use::plan);
  const Planner& planner = *backend.planner;
  set_precision(spec, *backend.planner);
  const JobRequest request{.disabled_passes = arguments.disabled_passes, .observe = {}, .plan = true};
  Job job = make_fitting_job(spec, planner, request);
  DeviceRow row{.name = name,
                .devices = spec.ranks(),
                .wanted_micro_batch = job.spec.batch().micro_batch,
                .available = available_bytes(spec, planner),
                .global_batch = spec.batch().global_batch,
                .steps = steps_of(job)};
  if (job.memory.total() > row.available) {
    const int64_t smaller = fitting_micro_batch(planner, job, row.available);
    if (smaller > 0) job = make_job(job.spec.with_micro_batch(smaller), planner, request);
  }
  row.micro_batch = job.spec.batch().micro_batch;
  row.bytes = job.memory.total();
  row.holds_samples = DeviceSamples::device_bytes(job.plan) > 0;
  if (name != kCpu)
    row.watts = find_device(recipe->device.model, recipe->origin_of("device.model")).power_watts;
  if (const auto found = prices.find(name); found != prices.end()) row.price = found->second;
  if (const auto found = measured.find(name); found != measured.end()) {
    row.measured_in = found->second;
    row.samples_per_second = measured_speed(*recipe, row);
  } else if (const std::optional<StepCost> step = step_cost(planner, job)) {
    row.samples_per_second = static_cast<double>(row.global_batch) / step->seconds();
    row.machine = step->machine;
  }
  return row;
}

Json to_json(const DeviceRow& row) {
  Json json{{"device", row.name},
            {"devices", row.devices},
            {"micro_batch_size", row.micro_batch},
            {"wanted_micro_batch_size", row.wanted_micro_batch},
            {"peak_bytes", row.bytes},
            {"available_bytes", row.available},
            {"fits", row.fits()}};
  const auto add = [&](const char* key, const std::optional<double>& value) {
    if (value) json[key] = *value;
  };
  const bool is_measured = !row.measured_in.empty();
  if (is_measured) json["measured_in"] = row.measured_in;
  add(is_measured ? "measured_seconds" : "predicted_seconds", row.step_seconds());
  add("samples_per_second", row.samples_per_second);
  if (row.steps > 0) json["steps"] = row.steps;
  add("hours", row.hours());
  add("kilowatt_hours_at_power_limit", row.kilowatt_hours());
  add("cost", row.cost());
  return json;
}

}  // namespace trainer
