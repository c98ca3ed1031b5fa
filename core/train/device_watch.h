// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/device.h"

namespace trainer {

/// Follows a device's condition through a run.
class DeviceWatch {
 public:
  /// The numbers of a reading for a line of metrics: "device_power_w", …
  std::vector<std::pair<std::string, double>> note(const DeviceReading& reading);

  /// Joules since the first reading; 0 if the device does not report it.
  double joules() const { return last_joules_ - first_joules_; }
  /// The most memory in use at any reading; 0 if the device does not report it.
  double most_memory_bytes() const { return most_memory_; }
  /// "throttled 12 % of the time: power cap"; empty if it was not.
  std::string throttling() const;

 private:
  int64_t readings_ = 0, throttled_ = 0;
  double first_joules_ = 0, last_joules_ = 0, most_memory_ = 0;
  std::map<std::string, int64_t> reasons_;
};

}  // namespace trainer
