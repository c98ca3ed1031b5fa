// SPDX-License-Identifier: Apache-2.0
#include "core/train/device_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainer {

std::vector<std::pair<std::string, double>> DeviceWatch::note(const DeviceReading& reading, double now_s) {
  std::vector<std::pair<std::string, double>> numbers;
  const std::optional<double> throttled_before = last_.throttled_s;
  bool says_something = !reading.throttled_by.empty();
  for (const DeviceNumber& number : kDeviceNumbers) {
    const std::optional<double>& now = reading.*number.value;
    std::optional<double>& last = last_.*number.value;
    if (!now) continue;
    says_something = true;
    if (!number.is_count) numbers.emplace_back(number.key, *now);
    if (number.is_count && last) numbers.emplace_back(number.key, *now - *last);
    if (number.error != nullptr && last && *now > *last)
      warnings_.push_back(fmt::format("the device reports {:.0f} new {}", *now - *last, number.error));
    last = now;
  }
  most_memory_ = std::max(most_memory_, reading.memory_bytes.value_or(0));
  if (!first_joules_) first_joules_ = reading.energy_j;
  if (!says_something) return numbers;
  const bool is_counted = reading.throttled_s && throttled_before && last_at_;
  note_throttling(reading,
                  is_counted ? std::optional(*reading.throttled_s - *throttled_before) : std::nullopt, now_s);
  last_at_ = now_s;
  return numbers;
}

void DeviceWatch::note_throttling(const DeviceReading& reading, std::optional<double> throttled, double now) {
  constexpr double kShare = 0.1;
  if (reading.throttled_s && !throttled) return;  // the time counts from here
  const double watched = throttled ? now - *last_at_ : 1,
               slowed = throttled.value_or(reading.throttled_by.empty() ? 0 : 1);
  watched_ += watched;
  throttled_ += slowed;
  if (slowed <= kShare * watched) return;
  std::vector<std::string> reasons = reading.throttled_by;
  if (reasons.empty()) reasons.emplace_back("power or temperature");  // over again at this moment
  for (const std::string& reason : reasons) {
    if (reasons_.insert(reason).second)
      warnings_.push_back("the device runs slower than it could: " + reason);
  }
}

std::vector<std::string> DeviceWatch::warnings() {
  return std::exchange(warnings_, {});
}

std::string DeviceWatch::throttling() const {
  if (reasons_.empty()) return "";
  return fmt::format("throttled {:.0f} % of the time: {}", 100 * throttled_ / watched_,
                     fmt::join(reasons_, ", "));
}

}  // namespace trainer
