// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// A device's condition at one moment; values that it does not report are absent.
struct DeviceReading {
  std::optional<double> utilization, stolen, memory_bytes, power_w, temperature_c, clock_mhz;
  std::optional<double> pcie_generation, pcie_width, pending_row_remaps;
  std::optional<double> cpu_pressure, memory_pressure, io_pressure;
  // Counts since the device was started, or this process.
  std::optional<double> energy_j, throttled_s, read_bytes, major_faults, corrected_errors, uncorrected_errors;
  std::vector<std::string> throttled_by;  ///< why it runs slower than it could
};

/// One number of a reading, under its key in a line of metrics.
struct DeviceNumber {
  using Member =
      std::optional<double> DeviceReading::*;  // nvcc writes one in parentheses, which g++ warns of

  Member value;
  std::string_view key, unit, meaning;
  bool is_count = false;        ///< a line has the increase since the line before
  const char* error = nullptr;  ///< what a warning calls those that it counts
};

inline constexpr std::array kDeviceNumbers = {
    DeviceNumber{
        &DeviceReading::utilization, "device_utilization", "0 to 1",
        "share of the time in which a GPU ran kernels; on a CPU, processor time of this process, workers "
        "included, as a share of the run's threads"},
    DeviceNumber{&DeviceReading::stolen, "device_stolen", "0 to 1",
                 "share of the time that other processes, or the hypervisor, took from the run's threads"},
    DeviceNumber{&DeviceReading::memory_bytes, "device_memory_bytes", "bytes",
                 "a GPU's memory in use, by any process"},
    DeviceNumber{&DeviceReading::power_w, "device_power_w", "W",
                 "power; on a CPU of all its sockets, an average since the line before"},
    DeviceNumber{&DeviceReading::temperature_c, "device_temperature_c", "°C", "the hottest sensor's"},
    DeviceNumber{&DeviceReading::clock_mhz, "device_clock_mhz", "MHz",
                 "clock; on a CPU the average of a few cores"},
    DeviceNumber{&DeviceReading::pcie_generation, "device_pcie_generation", "",
                 "of a GPU's link, as it is now"},
    DeviceNumber{&DeviceReading::pcie_width, "device_pcie_width", "lanes", "of a GPU's link, as it is now"},
    DeviceNumber{&DeviceReading::pending_row_remaps, "device_pending_row_remaps", "",
                 "1: rows of a GPU's memory are to be replaced, which takes a reset"},
    DeviceNumber{&DeviceReading::cpu_pressure, "device_cpu_pressure", "0 to 1",
                 "share of the time in which a process of the machine waited for a processor"},
    DeviceNumber{&DeviceReading::memory_pressure, "device_memory_pressure", "0 to 1", "the same for memory"},
    DeviceNumber{&DeviceReading::io_pressure, "device_io_pressure", "0 to 1", "the same for disks"},
    DeviceNumber{&DeviceReading::energy_j, "device_energy_j", "J", "energy since the line before", true},
    DeviceNumber{&DeviceReading::throttled_s, "device_throttled_s", "s",
                 "time since the line before in which it ran slower than it could, for its power or "
                 "temperature",
                 true},
    DeviceNumber{&DeviceReading::read_bytes, "device_read_bytes", "bytes",
                 "read from disks by this process since the line before", true},
    DeviceNumber{&DeviceReading::major_faults, "device_major_faults", "",
                 "pages that this process had to read from a disk since the line before", true},
    DeviceNumber{&DeviceReading::corrected_errors, "device_corrected_errors", "",
                 "memory errors that were corrected since the line before", true,
                 "memory errors, which were corrected"},
    DeviceNumber{&DeviceReading::uncorrected_errors, "device_uncorrected_errors", "",
                 "memory errors that could not be corrected since the line before", true,
                 "memory errors that could not be corrected"},
};

}  // namespace trainer
