// SPDX-License-Identifier: Apache-2.0
#include "cpu/sensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "core/base/directory.h"
#include "core/base/small_file.h"

namespace trainer::cpu {
namespace {

namespace fs = std::filesystem;

/// The names in a directory that begin and end so, in order.
std::vector<fs::path> entries(const fs::path& directory, std::string_view prefix,
                              std::string_view suffix = "") {
  std::error_code ignored;  // a directory that cannot be read has nothing
  std::vector<fs::path> found;
  for (const DirectoryEntry& entry : directory_entries(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(suffix)) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string name_in(const fs::path& directory) {
  const std::string text = read_small_file(directory / "name").value_or("");
  return text.substr(0, text.find('\n'));
}

/// At most 16, evenly spaced: a machine may have hundreds.
std::vector<int> sample_of(const std::vector<int>& processors) {
  constexpr size_t kMost = 16;
  std::vector<int> sample;
  const size_t count = std::min(kMost, processors.size());
  for (size_t i = 0; i < count; ++i) sample.push_back(processors[i * processors.size() / count]);
  return sample;
}

/// The domains of sockets are called package-0, package-1, …; those of their parts would be counted twice.
std::vector<fs::path> package_energies(const fs::path& powercap) {
  std::vector<fs::path> found;
  for (const fs::path& domain : entries(powercap, "intel-rapl:")) {
    if (name_in(domain).starts_with("package")) found.push_back(domain / "energy_uj");
  }
  return found;
}

std::string reason_of(const fs::path& file) {
  errno = 0;
  if (read_number(file)) return "";
  return errno == 0 ? "it holds no number" : std::system_category().message(errno);
}

}  // namespace

Sensors find_sensors(const fs::path& root, const std::vector<int>& processors) {
  constexpr std::array<std::string_view, 3> kDrivers = {"coretemp", "k10temp", "zenpower"};
  Sensors found;
  for (const fs::path& chip : entries(root / "sys/class/hwmon", "hwmon")) {
    if (std::ranges::find(kDrivers, name_in(chip)) == kDrivers.end()) continue;
    for (const fs::path& file : entries(chip, "temp", "_input")) found.temperatures.push_back(file);
  }
  for (const int processor : sample_of(processors)) {
    const fs::path folder = root / fmt::format("sys/devices/system/cpu/cpu{}", processor);
    if (is_there(folder / "cpufreq/scaling_cur_freq"))
      found.clocks.push_back(folder / "cpufreq/scaling_cur_freq");
    for (const fs::path& file : entries(folder / "thermal_throttle", "", "_throttle_count"))
      found.throttles.push_back(file);
    for (const fs::path& file : entries(folder / "thermal_throttle", "", "_throttle_total_time_ms"))
      found.throttled.push_back(file);
  }
  found.energies = package_energies(root / "sys/class/powercap");
  for (const fs::path& controller : entries(root / "sys/devices/system/edac/mc", "mc")) {
    if (is_there(controller / "ce_count")) found.corrected.push_back(controller / "ce_count");
    if (is_there(controller / "ue_count")) found.uncorrected.push_back(controller / "ue_count");
  }
  return found;
}

std::vector<std::string> missing_sensors(const Sensors& sensors) {
  std::vector<std::string> missing;
  const auto look = [&](const char* what, const std::vector<fs::path>& files, const char* absent) {
    if (files.empty()) {
      missing.push_back(fmt::format("{}: {}", what, absent));
      return;
    }
    for (const fs::path& file : files) {
      const std::string reason = reason_of(file);
      if (reason.empty()) continue;
      missing.push_back(fmt::format("{}: {}: {}{}", what, file.string(), reason,
                                    reason == "Permission denied" ? " (root may read it)" : ""));
      return;
    }
  };
  look("temperature", sensors.temperatures, "/sys/class/hwmon has no coretemp, k10temp or zenpower");
  look("clock", sensors.clocks, "/sys/devices/system/cpu has no cpufreq");
  look("throttling", sensors.throttles, "/sys/devices/system/cpu has no thermal_throttle");
  look("power", sensors.energies, "/sys/class/powercap has no package domain");
  look("memory errors", sensors.corrected, "/sys/devices/system/edac/mc has no controller");
  look("uncorrectable memory errors", sensors.uncorrected, "/sys/devices/system/edac/mc has no controller");
  return missing;
}

}  // namespace trainer::cpu
