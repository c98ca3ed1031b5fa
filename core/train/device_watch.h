// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/device.h"

namespace trainer {

/// Follows a device's condition through a run.
class DeviceWatch {
 public:
  /// The numbers of a reading at `now` (seconds of a steady clock) for a line of metrics: "device_power_w", …
  std::vector<std::pair<std::string, double>> note(const DeviceReading& reading, double now);
  /// Sentences about what the last reading has that those before had not: memory errors, throttling. Each
  /// reason to throttle is told once: where the device counts the time, if it is over a tenth of it since the
  /// reading before.
  std::vector<std::string> warnings();

  /// Joules since the first reading; 0 if the device does not report it.
  double joules() const { return last_.energy_j.value_or(0) - first_joules_.value_or(0); }
  /// The most memory in use at any reading; 0 if the device does not report it.
  double most_memory_bytes() const { return most_memory_; }
  /// "throttled 12 % of the time: power cap"; empty if it was not.
  std::string throttling() const;

 private:
  void note_throttling(const DeviceReading& reading, std::optional<double> throttled, double now);

  DeviceReading last_;             ///< of each number, the last that was there
  std::optional<double> last_at_;  ///< of the last reading that says something
  /// Of the device's life under watch: seconds where it counts them, else readings.
  double watched_ = 0, throttled_ = 0;
  std::optional<double> first_joules_;
  double most_memory_ = 0;
  std::set<std::string> reasons_;
  std::vector<std::string> warnings_;
};

}  // namespace trainer
