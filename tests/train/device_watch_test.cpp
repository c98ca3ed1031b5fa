// SPDX-License-Identifier: Apache-2.0
#include "core/train/device_watch.h"

#include <set>

#include "tests/catch.h"

namespace trainer {
namespace {

using Numbers = std::vector<std::pair<std::string, double>>;

TEST_CASE("counts of a device become increases; a rise of memory errors is a warning") {
  DeviceWatch watch;
  CHECK(watch.note({.power_w = 5, .energy_j = 1000, .corrected_errors = 7}) ==
        Numbers{{"device_power_w", 5.0}});
  CHECK(watch.warnings().empty());
  CHECK(watch.note({}).empty());
  CHECK(watch.note({.energy_j = 1200, .corrected_errors = 9, .uncorrected_errors = 0}) ==
        Numbers{{"device_energy_j", 200.0}, {"device_corrected_errors", 2.0}});
  CHECK(watch.warnings() ==
        std::vector<std::string>{"the device reports 2 new memory errors, which were corrected"});
  watch.note({.corrected_errors = 9, .uncorrected_errors = 1});
  CHECK(watch.warnings() ==
        std::vector<std::string>{"the device reports 1 new memory errors that could not be corrected"});
  CHECK(watch.warnings().empty());
  CHECK(watch.joules() == 200);
}

TEST_CASE("each reason to throttle is told once; the end has their share of the readings") {
  DeviceWatch watch;
  watch.note({.clock_mhz = 1});
  watch.note({.clock_mhz = 1, .throttled_by = {"power cap"}});
  watch.note({});  // a device that was just asked says nothing
  watch.note({.clock_mhz = 1, .throttled_by = {"power cap"}});
  watch.note({.clock_mhz = 1});
  CHECK(watch.warnings() == std::vector<std::string>{"the device runs slower than it could: power cap"});
  CHECK(watch.throttling() == "throttled 50 % of the time: power cap");
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
