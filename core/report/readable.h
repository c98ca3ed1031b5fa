// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainer {

/// Four significant digits; "NaN", "inf" or "-inf" if it is not finite.
std::string number_text(double value);
/// A share of 1 as "90.3 %"; with four digits from 99 % on, where the third hardly changes.
std::string share_text(double share);
/// Three significant digits with commas between thousands: "16,200".
std::string rounded_text(double value);
/// A tick of an axis: "0.25", "20k", "1.5M".
std::string tick_text(double value);
/// A value of a metric: a share where larger is better and 0 to 1, otherwise a number.
std::string metric_text(double value, bool larger_is_better);

}  // namespace trainer
