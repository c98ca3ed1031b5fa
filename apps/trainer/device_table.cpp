// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/device_table.h"

#include <fmt/format.h>

#include "apps/trainer/devices.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/time_report.h"
#include "core/base/split.h"
#include "core/base/units.h"
#include "core/session/membership.h"

namespace trainer {
namespace {

/// A GPU of the table.
struct DeviceRow {
  std::string name;
  int64_t micro_batch = 0;
  double seconds = 0, samples_per_second = 0;  ///< of a step; 0 if they are not known
  int64_t bytes = 0, available = 0;
  bool fits() const { return bytes <= available; }
};

DeviceRow plan_device(const Arguments& arguments, const std::string& name) {
  std::vector<std::string> overrides = arguments.overrides;
  overrides.insert(overrides.end(), {"device.type=cuda", "device.model=" + name});
  const RunSpec spec = planned_spec(Recipe::load(arguments.config, overrides));
  Tuning tuning = earlier_tuning(spec);
  const Backend backend = open_device(spec, tuning, {.type = "cuda"}, Use::plan);
  set_precision(spec, *backend.planner);
  const Job job = make_fitting_job(
      spec, *backend.planner, {.disabled_passes = arguments.disabled_passes, .observe = {}, .plan = true});
  DeviceRow row{.name = name,
                .micro_batch = job.spec.batch().micro_batch,
                .bytes = job.memory.total(),
                .available = available_bytes(spec, *backend.planner)};
  if (const std::optional<StepCost> step = step_cost(*backend.planner, job)) {
    row.seconds = step->total.seconds();
    row.samples_per_second = static_cast<double>(spec.batch().global_batch) / row.seconds;
  }
  return row;
}

std::string text_of(const DeviceRow& row) {
  const bool is_known = row.seconds > 0;
  return fmt::format("{:<16} {:>11} {:>12} {:>11} {:>11} of {:<9} {}\n", row.name, row.micro_batch,
                     is_known ? fmt::format("{:.2f} ms", 1e3 * row.seconds) : "no rates",
                     is_known ? fmt::format("{:.0f}", row.samples_per_second) : "-", human_bytes(row.bytes),
                     human_bytes(row.available), row.fits() ? "yes" : "NO");
}

}  // namespace

void print_device_table(const Arguments& arguments) {
  Json all = Json::array();
  std::string text = fmt::format("{:<16} {:>11} {:>12} {:>11} {:>11}    {:<9} {}\n", "device", "micro-batch",
                                 "step", "samples/s", "memory", "", "fits");
  for (const std::string& name : split(arguments.devices, ',')) {
    const DeviceRow row = plan_device(arguments, name);
    text += text_of(row);
    Json json{{"device", row.name},
              {"micro_batch_size", row.micro_batch},
              {"peak_bytes", row.bytes},
              {"available_bytes", row.available},
              {"fits", row.fits()}};
    if (row.seconds > 0) {
      json["predicted_seconds"] = row.seconds;
      json["samples_per_second"] = row.samples_per_second;
    }
    all.push_back(json);
  }
  text += "Step and samples/s are predicted from the devices' rates, not measured.\n";
  print_to_output(arguments.json ? all.dump(2) + "\n" : text);
}

}  // namespace trainer
