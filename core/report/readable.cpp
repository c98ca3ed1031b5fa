// SPDX-License-Identifier: Apache-2.0
#include "core/report/readable.h"

#include <fmt/format.h>

#include <cmath>

namespace trainer {

std::string number_text(double value) {
  return std::isfinite(value) ? fmt::format("{:.4g}", value)
         : std::isnan(value)  ? "NaN"
         : value > 0          ? "inf"
                              : "-inf";
}

std::string share_text(double share) {
  const double percent = 100 * share;
  if (!std::isfinite(percent)) return number_text(percent);
  if (percent == 100) return "100 %";
  return percent >= 99 ? fmt::format("{:.2f} %", percent) : fmt::format("{:.1f} %", percent);
}

std::string rounded_text(double value) {
  constexpr double kMostDigits = 1e15;
  if (!std::isfinite(value) || std::fabs(value) >= kMostDigits) return number_text(value);
  if (std::fabs(value) < 1000) return fmt::format("{:.3g}", value);
  const double unit = std::pow(10, std::floor(std::log10(std::fabs(value))) - 2);
  std::string digits = fmt::format("{:.0f}", std::round(value / unit) * unit);
  const size_t first = value < 0 ? 2 : 1;  // no comma before the first digit
  for (size_t at = digits.size(); at >= first + 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string tick_text(double value) {
  const double size = std::fabs(value);
  if (size >= 1e6 && size < 1e9) return fmt::format("{:.4g}M", value / 1e6);
  if (size >= 1e4 && size < 1e6) return fmt::format("{:.4g}k", value / 1e3);
  return fmt::format("{:.6g}", value);
}

std::string metric_text(double value, bool larger_is_better) {
  return larger_is_better && value >= 0 && value <= 1 ? share_text(value) : number_text(value);
}

}  // namespace trainer
