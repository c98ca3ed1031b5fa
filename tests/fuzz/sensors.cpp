// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "core/base/split.h"
#include "core/host/processors.h"
#include "cpu/monitor.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// A directory of this process with the files that a monitor reads, below which the input's parts are put.
class SensorFiles {
 public:
  SensorFiles() : root_(fs::temp_directory_path() / ("sensors-" + std::to_string(::getpid()))) {
    const std::string cpu = "sys/devices/system/cpu/cpu" + std::to_string(allowed_processors().at(0));
    names_ = {"sys/class/hwmon/hwmon0/temp1_input",
              cpu + "/cpufreq/scaling_cur_freq",
              cpu + "/thermal_throttle/core_throttle_count",
              cpu + "/thermal_throttle/core_throttle_total_time_ms",
              "sys/class/powercap/intel-rapl:0/energy_uj",
              "sys/class/powercap/intel-rapl:0/max_energy_range_uj",
              "sys/devices/system/edac/mc/mc0/ce_count",
              "sys/devices/system/edac/mc/mc0/ue_count",
              "proc/pressure/io",
              "proc/self/io",
              "proc/stat"};
    for (const std::string& name : names_) fs::create_directories((root_ / name).parent_path());
    write("sys/class/hwmon/hwmon0/name", "coretemp\n");
    write("sys/class/powercap/intel-rapl:0/name", "package-0\n");
  }
  ~SensorFiles() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  SensorFiles(const SensorFiles&) = delete;
  SensorFiles& operator=(const SensorFiles&) = delete;

  const fs::path& root() const { return root_; }
  /// Parts from `first` on; files without one are empty. Most of an input's time goes to writing files, so
  /// those that have their text already are left.
  void put(const std::vector<std::string>& parts, size_t first) {
    for (size_t i = 0; i < names_.size(); ++i) {
      const std::string& text = first + i < parts.size() ? parts[first + i] : kNothing;
      if (texts_[i] != text) write(names_[i], text);
      texts_[i] = text;
    }
  }
  size_t count() const { return names_.size(); }

 private:
  void write(const std::string& name, const std::string& text) const {
    if (!(std::ofstream(root_ / name, std::ios::binary) << text)) std::abort();
  }

  static inline const std::string kNothing;

  fs::path root_;
  std::array<std::string, 11> names_;
  std::array<std::optional<std::string>, 11> texts_;
};

void expect(bool holds) {
  if (!holds) std::abort();
}

/// Numbers are finite, shares from 0 to 1, and counts do not fall below 0.
void check(const DeviceReading& reading) {
  for (const DeviceNumber& number : kDeviceNumbers) {
    const std::optional<double>& value = reading.*number.value;
    if (!value) continue;
    expect(std::isfinite(*value));
    if (number.unit == "0 to 1") expect(*value >= 0 && *value <= 1);
  }
  expect(std::abs(reading.temperature_c.value_or(0)) <= 300);
  expect(reading.energy_j.value_or(0) >= 0 && reading.power_w.value_or(0) >= 0);
}

}  // namespace
}  // namespace trainer

/// Two readings: the texts of the files for the first, then for the second, all separated by '\1'.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static trainer::SensorFiles files;
  const std::vector<std::string> parts =
      trainer::split(std::string_view(reinterpret_cast<const char*>(data), size), '\1');
  files.put(parts, 0);
  trainer::cpu::Monitor monitor(1, files.root());
  const trainer::DeviceReading first = monitor.read(10);
  trainer::check(first);
  files.put(parts, files.count());
  const trainer::DeviceReading second = monitor.read(12);
  trainer::check(second);
  trainer::expect(second.energy_j.value_or(first.energy_j.value_or(0)) >= first.energy_j.value_or(0));
  monitor.missing();
  return 0;
}
