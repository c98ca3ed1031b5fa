// SPDX-License-Identifier: Apache-2.0
#include "cuda/monitor.h"

#include <dlfcn.h>

#include "tests/catch.h"

#include "core/train/device_watch.h"

namespace trainer {
namespace {

constexpr const char* kFakeNvml = "libfake_nvml.so";

}  // namespace

TEST_CASE("a monitor tells what the GPU tells, and nothing else") {
  const auto monitor = cuda::Monitor::open("0000:1b:00.0", kFakeNvml);
  REQUIRE(monitor != nullptr);
  const DeviceReading reading = monitor->read();
  CHECK(reading.utilization == 0.87);
  CHECK(reading.memory_bytes == 10e9);
  CHECK(reading.power_w == 650.5);
  CHECK_FALSE(reading.temperature_c);
  CHECK_FALSE(reading.clock_mhz);
  CHECK(reading.energy_j == 5001.5);
  CHECK(reading.throttled_s == 2.5);
  CHECK(reading.corrected_errors == 12);
  CHECK(reading.uncorrected_errors == 1);
  CHECK(reading.pending_row_remaps == 1);
  CHECK(reading.pcie_width == 8);
  CHECK_FALSE(reading.pcie_generation);
  CHECK(reading.throttled_by == std::vector<std::string>{"power cap", "temperature"});
  CHECK(monitor->read().energy_j == 5003.0);
}

TEST_CASE("without the library, its functions or the GPU there is no monitor") {
  CHECK(cuda::Monitor::open("0000:1b:00.0", "libno-such-library.so.1") == nullptr);
  CHECK(cuda::Monitor::open("0000:1b:00.0", "libm.so.6") == nullptr);
  CHECK(cuda::Monitor::open("0000:99:00.0", kFakeNvml) == nullptr);
  void* library = ::dlopen(kFakeNvml, RTLD_NOW);
  REQUIRE(library != nullptr);
  CHECK(reinterpret_cast<int (*)()>(::dlsym(library, "fake_nvml_users"))() == 0);
  ::dlclose(library);
}

TEST_CASE("a watch counts joules, and how often the device was slowed down") {
  DeviceWatch watch;
  CHECK(watch.throttling().empty());
  CHECK(watch.note({}, 0).empty());
  DeviceWatch other;
  other.note({.energy_j = 100}, 0);
  const auto numbers =
      other.note({.utilization = 0.5, .power_w = 300, .energy_j = 160, .throttled_by = {"power cap"}}, 1);
  CHECK(numbers == std::vector<std::pair<std::string, double>>{
                       {"device_utilization", 0.5}, {"device_power_w", 300}, {"device_energy_j", 60}});
  other.note({.energy_j = 250}, 2);
  other.note({.energy_j = 400, .throttled_by = {"power cap", "temperature"}}, 3);
  CHECK(other.joules() == 300);
  CHECK(other.throttling() == "throttled 50 % of the time: power cap, temperature");
}

}  // namespace trainer
