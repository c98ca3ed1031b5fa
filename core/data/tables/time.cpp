// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/time.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace trainer {
namespace {

constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
/// Of a step; times that are numbers have rounding errors.
constexpr double kTolerance = 1e-4;

/// Reads a text from its beginning.
class TimeReader {
 public:
  explicit TimeReader(std::string_view text) : left_(text) {}

  bool take(char c) {
    if (left_.empty() || left_.front() != c) return false;
    left_.remove_prefix(1);
    return true;
  }
  /// A number of so many digits, within bounds.
  bool number(size_t digits, int least, int most, int& value) {
    if (left_.size() < digits) return false;
    value = 0;
    for (size_t i = 0; i < digits; ++i) {
      if (left_[i] < '0' || left_[i] > '9') return false;
      value = 10 * value + (left_[i] - '0');
    }
    left_.remove_prefix(digits);
    return least <= value && value <= most;
  }
  /// Digits after a point: a part of a second.
  bool fraction(double& value) {
    double unit = 1;
    const size_t before = left_.size();
    for (value = 0; !left_.empty() && left_.front() >= '0' && left_.front() <= '9'; left_.remove_prefix(1))
      value += (left_.front() - '0') * (unit /= 10);
    return left_.size() < before;
  }
  bool is_at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
};

bool read_day(TimeReader& text, double& seconds) {
  int year = 0, month = 0, day = 1;
  if (!text.number(4, 0, 9999, year) || !text.take('-') || !text.number(2, 1, 12, month)) return false;
  if (text.take('-') && !text.number(2, 1, 31, day)) return false;
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  seconds = kDay * static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
  return date.ok();
}

bool read_time_of_day(TimeReader& text, double& seconds) {
  int hour = 0, minute = 0, second = 0;
  double part = 0;
  if (!text.number(2, 0, 23, hour) || !text.take(':') || !text.number(2, 0, 59, minute)) return false;
  if (text.take(':') && !text.number(2, 0, 59, second)) return false;
  if ((text.take('.') || text.take(',')) && !text.fraction(part)) return false;
  seconds += kHour * hour + kMinute * minute + second + part;
  return true;
}

bool read_zone(TimeReader& text, double& seconds) {
  if (text.is_at_end() || text.take('Z')) return true;
  const bool is_east = text.take('+');
  if (!is_east && !text.take('-')) return false;
  int hour = 0, minute = 0;
  if (!text.number(2, 0, 23, hour)) return false;
  if (text.take(':') || !text.is_at_end()) {
    if (!text.number(2, 0, 59, minute)) return false;
  }
  const double offset = kHour * hour + kMinute * minute;
  seconds += is_east ? -offset : offset;
  return true;
}

/// A time as a date, and seconds of its day.
struct Civil {
  explicit Civil(double time)
      : date(std::chrono::sys_days(std::chrono::days(static_cast<int64_t>(std::floor(time / kDay))))),
        second(time - kDay * std::floor(time / kDay)) {}

  int64_t months() const {
    return int64_t{12} * static_cast<int>(date.year()) + static_cast<unsigned>(date.month());
  }
  bool is_at_end_of_month() const {
    return date.day() == (date.year() / date.month() / std::chrono::last).day();
  }
  /// Whether the two are whole months apart.
  bool is_in_step(const Civil& other) const {
    return second == other.second &&
           (date.day() == other.date.day() || (is_at_end_of_month() && other.is_at_end_of_month()));
  }

  std::chrono::year_month_day date;
  double second;
};

double difference(double before, double after, TimeStep::Unit unit) {
  if (unit != TimeStep::Unit::month) return after - before;
  return static_cast<double>(Civil(after).months() - Civil(before).months());
}

/// Whether all are at one time of one day of the month, or of its last day.
bool counts_months(std::span<const double> times) {
  const Civil first(times.front());
  bool is_one_day = true, are_ends = true;
  for (const double time : times) {
    const Civil other(time);
    if (other.second != first.second) return false;
    is_one_day = is_one_day && other.date.day() == first.date.day();
    are_ends = are_ends && other.is_at_end_of_month();
  }
  return is_one_day || are_ends;
}

}  // namespace

std::optional<double> parse_date(std::string_view text) {
  TimeReader reader(text);
  double seconds = 0;
  if (!read_day(reader, seconds)) return std::nullopt;
  if (reader.is_at_end()) return seconds;
  if (!reader.take('T') && !reader.take(' ')) return std::nullopt;
  if (!read_time_of_day(reader, seconds) || !read_zone(reader, seconds) || !reader.is_at_end())
    return std::nullopt;
  return seconds;
}

std::string time_text(double time, TimeForm form) {
  if (form == TimeForm::number) return fmt::format("{}", time);
  const Civil civil(time);
  std::string text =
      fmt::format("{:04}-{:02}-{:02}", static_cast<int>(civil.date.year()),
                  static_cast<unsigned>(civil.date.month()), static_cast<unsigned>(civil.date.day()));
  if (civil.second == 0) return text;
  const auto whole = static_cast<int64_t>(civil.second);
  text += fmt::format("T{:02}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  const double part = civil.second - static_cast<double>(whole);
  return part == 0 ? text : text + fmt::format("{:.6f}", part).substr(1);
}

bool TimeStep::leads(double before, double after) const {
  if (unit == Unit::month && !Civil(before).is_in_step(Civil(after))) return false;
  return std::abs(difference(before, after, unit) - size) <= kTolerance * size;
}

std::string TimeStep::text() const {
  if (unit == Unit::number) return fmt::format("{:.6g}", size);
  if (unit == Unit::month) return fmt::format("{:g} month{}", size, size == 1 ? "" : "s");
  for (const auto& [length, name] : {std::pair{kDay, "d"}, {kHour, "h"}, {kMinute, "min"}}) {
    if (std::fmod(size, length) == 0) return fmt::format("{:g} {}", size / length, name);
  }
  return fmt::format("{:g} s", size);
}

TimeStep commonest_step(std::span<const double> times, std::span<const int64_t> ends, TimeForm form) {
  TimeStep found;
  if (form == TimeForm::date)
    found.unit = counts_months(times) ? TimeStep::Unit::month : TimeStep::Unit::second;
  std::vector<double> steps;
  int64_t begin = 0;
  for (const int64_t end : ends) {
    for (auto row = static_cast<size_t>(begin) + 1; row < static_cast<size_t>(end); ++row) {
      const double step = difference(times[row - 1], times[row], found.unit);
      if (std::isfinite(step)) steps.push_back(step);  // numbers of times may be far apart
    }
    begin = end;
  }
  std::ranges::sort(steps);
  size_t most = 0;
  for (size_t first = 0, last = 0; first < steps.size(); ++first) {
    while (last < steps.size() && steps[last] <= steps[first] * (1 + kTolerance)) ++last;
    if (last - first <= most) continue;
    most = last - first;
    found.size = steps[first + most / 2];
  }
  return found;
}

}  // namespace trainer
