// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "core/engine/device_reading.h"
#include "cpu/processor_use.h"
#include "cpu/sensors.h"

namespace trainer::cpu {

/// Readings of the processors that this process may use, from Linux's files. What a file does not tell is
/// absent: containers and virtual machines have few sensors.
class Monitor {
 public:
  /// `threads`: those that compute. Files are looked for below `root`.
  explicit Monitor(int threads, const std::filesystem::path& root = "/");

  /// At `now`, in seconds of a steady clock. Most values are averages since the reading before; within a
  /// second after it there is nothing to say.
  DeviceReading read(double now);
  std::vector<std::string> missing() const { return missing_sensors(sensors_); }

 private:
  /// Sums since the machine was started.
  struct Sums {
    double at = 0;
    std::optional<ProcessorSeconds> processors;
    double own = 0;
    std::optional<double> cpu_pressure, memory_pressure, io_pressure;  ///< seconds
    std::optional<double> throttles;
  };

  Sums sums(double now) const;
  std::optional<double> pressure(const char* kind) const;
  std::optional<double> energy();
  void read_use(const Sums& before, const Sums& now, DeviceReading& reading) const;
  void read_sensors(DeviceReading& reading);

  double threads_;
  std::filesystem::path root_;
  std::vector<int> processors_;
  Sensors sensors_;
  std::optional<Sums> last_;
  std::vector<std::optional<double>> last_energies_;  ///< joules, of each of the sensors
  double joules_ = 0;
};

}  // namespace trainer::cpu
