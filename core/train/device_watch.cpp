// SPDX-License-Identifier: Apache-2.0
#include "core/train/device_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainer {

std::vector<std::pair<std::string, double>> DeviceWatch::note(const DeviceReading& reading) {
  std::vector<std::pair<std::string, double>> numbers;
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
  if (says_something) note_throttling(reading.throttled_by);
  return numbers;
}

void DeviceWatch::note_throttling(const std::vector<std::string>& reasons) {
  ++readings_;
  throttled_ += reasons.empty() ? 0 : 1;
  for (const std::string& reason : reasons) {
    if (++reasons_[reason] == 1) warnings_.push_back("the device runs slower than it could: " + reason);
  }
}

std::vector<std::string> DeviceWatch::warnings() {
  return std::exchange(warnings_, {});
}

std::string DeviceWatch::throttling() const {
  if (throttled_ == 0) return "";
  std::vector<std::string> names;
  for (const auto& [reason, count] : reasons_) names.push_back(reason);
  return fmt::format("throttled {:.0f} % of the time: {}",
                     100.0 * static_cast<double>(throttled_) / static_cast<double>(readings_),
                     fmt::join(names, ", "));
}

}  // namespace trainer
