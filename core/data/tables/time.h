// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trainer {

/// How a column writes times: as numbers, or as dates, which are read as seconds since 1970-01-01.
enum class TimeForm { number, date };

/// Reads a date of ISO 8601: 2013-01, 2013-01-05, and after that perhaps `T` or a blank with 14:00 or
/// 14:00:30.5, and Z or +01:00; without it a date is in UTC. Returns seconds since 1970-01-01, or nothing for
/// another text.
std::optional<double> parse_date(std::string_view text);

/// A time as text: a number, or a date in UTC, with its time of day unless that is midnight.
std::string time_text(double time, TimeForm form);

/// The step from a row of a series to the next.
struct TimeStep {
  enum class Unit { number, second, month };
  Unit unit = Unit::number;
  double size = 1;

  TimeForm form() const { return unit == Unit::number ? TimeForm::number : TimeForm::date; }
  /// Whether `after` is one step after `before`. A ten-thousandth of a step does not count.
  bool leads(double before, double after) const;
  /// "1 h", "7 d", "1 month" or, of numbers, "0.5".
  std::string text() const;
};

/// The most frequent step within series of ascending times; of several the smallest. Series end at `ends`,
/// places in `times`. Steps count in months if all dates are at one time of one day of the month, or at that
/// of its last day.
TimeStep commonest_step(std::span<const double> times, std::span<const int64_t> ends, TimeForm form);

}  // namespace trainer
