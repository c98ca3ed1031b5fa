// SPDX-License-Identifier: Apache-2.0
// A processor's sensors, from files as Linux shows them below a root of the test's own.
#include "cpu/monitor.h"

#include <sched.h>

#include <filesystem>
#include <string>

#include "cpu/processor_use.h"
#include "cpu/sensors.h"
#include "tests/catch.h"
#include "tests/storage/scratch_directory.h"

namespace trainer::cpu {
namespace {

namespace fs = std::filesystem;

int first_processor() {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &set)) ++first;
  return first;
}

/// A machine's files.
class Root {
 public:
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path() / name).parent_path());
    test::put(path() / name, text);
  }
  const fs::path& path() const { return directory_.path(); }
  std::string processor() const { return "sys/devices/system/cpu/cpu" + std::to_string(first_processor()); }

 private:
  test::ScratchDirectory directory_;
};

TEST_CASE("seconds of processors: those of this process alone, guests not twice, short lines too") {
  const std::string text =
      "cpu  1000 0 0 0 0 0 0 0 0 0\n"
      "cpu0 100 20 30 400 50 1 2 7 90 90\n"
      "cpu1 10 0 0 90\n"
      "cpu2 nonsense\n"
      "intr 1 2 3\n";
  const auto both = processor_seconds(text, {0, 1}, 100);
  REQUIRE(both);
  CHECK(both->all == Approx(6.10 + 1.0));
  CHECK(both->busy == Approx(1.60 + 0.1));
  CHECK(processor_seconds(text, {1}, 100)->all == Approx(1.0));
  CHECK_FALSE(processor_seconds(text, {2, 3}, 100));
  CHECK_FALSE(processor_seconds("", {0}, 100));
  CHECK_FALSE(processor_seconds("cpu0 -5 x", {0}, 100));
  CHECK(processor_seconds("cpu0 5 0 0 -5", {0}, 1)->all == 5);
}

TEST_CASE("others steal only what does not fit beside the threads that compute") {
  // Two threads on two processors, and a third of somebody else: each gets two thirds of a processor.
  const ProcessorUse crowded{.seconds = 3, .own = 4, .others = 2, .processors = 2};
  CHECK(stolen(crowded, 2) == Approx(1.0 / 3));
  CHECK(utilization(crowded, 2) == Approx(2.0 / 3));
  const ProcessorUse beside{.seconds = 3, .own = 3, .others = 3, .processors = 2};
  CHECK(stolen(beside, 1) == 0);
  CHECK(utilization(beside, 1) == 1);
  const ProcessorUse nothing{.seconds = 3, .own = 0, .others = 100, .processors = 1};
  CHECK(stolen(nothing, 1) == 1);
  CHECK(utilization(nothing, 1) == 0);
}

TEST_CASE("a machine with all sensors") {
  const Root root;
  const std::string cpu = root.processor();
  root.write("sys/class/hwmon/hwmon0/name", "nvme\n");
  root.write("sys/class/hwmon/hwmon0/temp1_input", "99000\n");
  root.write("sys/class/hwmon/hwmon1/name", "coretemp\n");
  root.write("sys/class/hwmon/hwmon1/temp1_input", "51000\n");
  root.write("sys/class/hwmon/hwmon1/temp2_input", "62500\n");
  root.write(cpu + "/cpufreq/scaling_cur_freq", "2400000\n");
  root.write(cpu + "/thermal_throttle/core_throttle_count", "3\n");
  root.write(cpu + "/thermal_throttle/core_throttle_total_time_ms", "1500\n");
  root.write(cpu + "/thermal_throttle/package_throttle_total_time_ms", "700\n");
  root.write("sys/class/powercap/intel-rapl:0/name", "package-0\n");
  root.write("sys/class/powercap/intel-rapl:0/energy_uj", "1000000\n");
  root.write("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262000000\n");
  root.write("sys/class/powercap/intel-rapl:0:0/name", "core\n");
  root.write("sys/class/powercap/intel-rapl:0:0/energy_uj", "500000\n");
  root.write("sys/devices/system/edac/mc/mc0/ce_count", "4\n");
  root.write("sys/devices/system/edac/mc/mc0/ue_count", "0\n");
  root.write("proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull total=7\n");
  root.write("proc/self/io", "rchar: 9\nread_bytes: 4096\nwrite_bytes: 1\n");
  Monitor monitor(1, root.path());
  CHECK(monitor.missing().empty());
  const DeviceReading first = monitor.read(10);
  CHECK(first.temperature_c == 62.5);
  CHECK(first.clock_mhz == 2400);
  CHECK(first.energy_j == 0);
  CHECK_FALSE(first.power_w);
  CHECK_FALSE(first.utilization);
  CHECK(first.corrected_errors == 4);
  CHECK(first.uncorrected_errors == 0);
  CHECK(first.read_bytes == 4096);
  CHECK(first.throttled_by.empty());
  CHECK(first.throttled_s == 1.5);

  CHECK_FALSE(monitor.read(10.5).temperature_c);  // too soon

  root.write("sys/class/powercap/intel-rapl:0/energy_uj", "21000000\n");
  root.write(cpu + "/thermal_throttle/core_throttle_count", "4\n");
  root.write("proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull total=7\n");
  const DeviceReading second = monitor.read(12);
  CHECK(second.energy_j == Approx(20));
  CHECK(second.power_w == Approx(10));
  CHECK(second.io_pressure == Approx(0.25));
  CHECK(second.throttled_by == std::vector<std::string>{"temperature"});
  REQUIRE(second.utilization);

  root.write("sys/class/powercap/intel-rapl:0/energy_uj", "1000000\n");  // it wrapped
  CHECK(monitor.read(14).energy_j == Approx(20 + 262 - 20));
}

TEST_CASE("a machine without sensors, or with damaged ones, has fewer numbers and says why") {
  const Root empty;
  Monitor bare(1, empty.path());
  CHECK(bare.missing().size() == 6);
  const DeviceReading nothing = bare.read(1);
  CHECK_FALSE(nothing.temperature_c);
  CHECK_FALSE(nothing.energy_j);
  CHECK_FALSE(bare.read(3).stolen);

  const Root root;
  root.write("sys/class/hwmon/hwmon0/name", "k10temp");
  root.write("sys/class/hwmon/hwmon0/temp1_input", "hot\n");
  root.write("sys/class/hwmon/hwmon0/temp2_input", "999999999999999999999999\n");
  root.write("sys/class/hwmon/hwmon0/temp3_input", "-300000\n");
  root.write("sys/class/powercap/intel-rapl:0/name", "package-0");
  root.write("sys/class/powercap/intel-rapl:0/energy_uj", "");
  root.write("sys/devices/system/edac/mc/mc0/ce_count", "1 2");
  root.write("proc/stat", std::string(100, '\0') + "cpu0 1");
  root.write("proc/pressure/cpu", "some total=");
  root.write("proc/self/io", "read_bytes");
  Monitor damaged(1, root.path());
  damaged.read(1);
  const DeviceReading reading = damaged.read(3);
  CHECK_FALSE(reading.temperature_c);
  CHECK_FALSE(reading.power_w);
  CHECK_FALSE(reading.corrected_errors);
  CHECK_FALSE(reading.stolen);
  CHECK_FALSE(reading.cpu_pressure);
  CHECK_FALSE(reading.read_bytes);
  bool told = false;
  for (const std::string& text : damaged.missing())
    told |= text.starts_with("temperature: ") && text.ends_with("temp1_input: it holds no number");
  CHECK(told);
}

TEST_CASE("a directory or an endless file in place of a sensor is a missing sensor") {
  const Root root;
  root.write("sys/class/hwmon/hwmon0/name", "coretemp");
  fs::create_directories(root.path() / "sys/class/hwmon/hwmon0/temp1_input");
  root.write("sys/class/hwmon/hwmon0/temp2_input", "40000");
  root.write("proc/stat", std::string(size_t{5} << 20, 'c'));
  Monitor monitor(1, root.path());
  CHECK(monitor.read(1).temperature_c == 40);
  CHECK_FALSE(monitor.read(3).stolen);
}

}  // namespace
}  // namespace trainer::cpu
