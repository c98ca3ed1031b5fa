// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trainer::cpu {

/// Where Linux shows what the processors report; each list may be empty.
struct Sensors {
  std::vector<std::filesystem::path> temperatures;  ///< thousandths of a degree; hwmon
  std::vector<std::filesystem::path> clocks;        ///< kHz, of at most 16 processors
  std::vector<std::filesystem::path> throttles;     ///< counts, of the same
  std::vector<std::filesystem::path> throttled;     ///< milliseconds, of the same; newer kernels
  std::vector<std::filesystem::path> energies;      ///< microjoules of each socket, which wrap; powercap
  std::vector<std::filesystem::path> corrected, uncorrected;  ///< counts of memory errors; EDAC
};

/// Those below `root`, of processors of these numbers.
Sensors find_sensors(const std::filesystem::path& root, const std::vector<int>& processors);

/// What of them is missing, with the reason: "temperature: /sys/class/hwmon has no coretemp, k10temp or
/// zenpower", "power: /sys/…/energy_uj: Permission denied".
std::vector<std::string> missing_sensors(const Sensors& sensors);

}  // namespace trainer::cpu
