// SPDX-License-Identifier: Apache-2.0
#include "core/train/device_watch.h"

#include <set>

#include "tests/catch.h"

namespace trainer {
namespace {

using Numbers = std::vector<std::pair<std::string, double>>;

TEST_CASE("counts of a device become increases; a rise of memory errors is a warning") {
  DeviceWatch watch;
  CHECK(watch.note({.power_w = 5, .energy_j = 1000, .corrected_errors = 7}, 1) ==
        Numbers{{"device_power_w", 5.0}});
  CHECK(watch.warnings().empty());
  CHECK(watch.note({}, 2).empty());
  CHECK(watch.note({.energy_j = 1200, .corrected_errors = 9, .uncorrected_errors = 0}, 3) ==
        Numbers{{"device_energy_j", 200.0}, {"device_corrected_errors", 2.0}});
  CHECK(watch.warnings() ==
        std::vector<std::string>{"the device reports 2 new memory errors, which were corrected"});
  watch.note({.corrected_errors = 9, .uncorrected_errors = 1}, 4);
  CHECK(watch.warnings() ==
        std::vector<std::string>{"the device reports 1 new memory errors that could not be corrected"});
  CHECK(watch.warnings().empty());
  CHECK(watch.joules() == 200);
}

TEST_CASE("each reason to throttle is told once; the end has their share of the readings") {
  DeviceWatch watch;
  watch.note({.clock_mhz = 1}, 1);
  watch.note({.clock_mhz = 1, .throttled_by = {"power cap"}}, 2);
  watch.note({}, 3);  // a device that was just asked says nothing
  watch.note({.clock_mhz = 1, .throttled_by = {"power cap"}}, 2);
  watch.note({.clock_mhz = 1}, 1);
  CHECK(watch.warnings() == std::vector<std::string>{"the device runs slower than it could: power cap"});
  CHECK(watch.throttling() == "throttled 50 % of the time: power cap");
}

TEST_CASE("where a device counts the time that it was held back, a tenth of an interval is a warning") {
  DeviceWatch watch;
  watch.note({.throttled_s = 50}, 100);
  watch.note({.throttled_s = 50.9, .throttled_by = {"power cap"}}, 110);
  CHECK(watch.warnings().empty());
  CHECK(watch.throttling().empty());
  CHECK(watch.note({.throttled_s = 56.9}, 120) == Numbers{{"device_throttled_s", 6.0}});
  CHECK(watch.warnings() ==
        std::vector<std::string>{"the device runs slower than it could: power or temperature"});
  watch.note({}, 125);
  watch.note({.throttled_s = 58.9, .throttled_by = {"temperature"}}, 130);
  CHECK(watch.warnings() == std::vector<std::string>{"the device runs slower than it could: temperature"});
  watch.note({.throttled_s = 58.9}, 140);
  CHECK(watch.warnings().empty());
  CHECK(watch.throttling() ==
        "throttled 22 % of the time: power or temperature, temperature");  // 8.9 of 40 s
}

TEST_CASE("each number of a device has a key of its own and a meaning") {
  std::set<std::string_view> keys;
  for (const DeviceNumber& number : kDeviceNumbers) {
    CHECK(number.key.starts_with("device_"));
    CHECK_FALSE(number.meaning.empty());
    CHECK(keys.insert(number.key).second);
  }
}

}  // namespace
}  // namespace trainer
