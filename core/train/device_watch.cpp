// SPDX-License-Identifier: Apache-2.0
#include "core/train/device_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainer {

std::vector<std::pair<std::string, double>> DeviceWatch::note(const DeviceReading& reading) {
  std::vector<std::pair<std::string, double>> numbers;
  auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) numbers.emplace_back(name, *value);
  };
  add("device_utilization", reading.utilization);
  add("device_memory_bytes", reading.memory_bytes);
  add("device_power_w", reading.power_w);
  add("device_temperature_c", reading.temperature_c);
  add("device_clock_mhz", reading.clock_mhz);
  most_memory_ = std::max(most_memory_, reading.memory_bytes.value_or(0));
  if (reading.energy_j) {
    if (readings_ == 0) first_joules_ = *reading.energy_j;
    last_joules_ = *reading.energy_j;
  }
  ++readings_;
  throttled_ += reading.throttled_by.empty() ? 0 : 1;
  for (const std::string& reason : reading.throttled_by) ++reasons_[reason];
  return numbers;
}

std::string DeviceWatch::throttling() const {
  if (throttled_ == 0) return "";
  std::vector<std::string> names;
  for (const auto& [reason, count] : reasons_) names.push_back(reason);
  return fmt::format("throttled {:.0f} % of the time: {}",
                     100.0 * static_cast<double>(throttled_) / static_cast<double>(readings_),
                     fmt::join(names, ", "));
}

}  // namespace trainer
