// SPDX-License-Identifier: Apache-2.0
#include "core/base/units.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace trainer {
namespace {

/// Splits "12ep" into 12 and "ep"; nothing if it does not start with a whole number.
std::optional<std::pair<int64_t, std::string_view>> split_number(std::string_view text) {
  int64_t count = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (status != std::errc{}) return std::nullopt;
  return std::pair{count, text.substr(static_cast<size_t>(end - text.data()))};
}

struct TimeUnit {
  std::string_view name;
  int64_t seconds;
};
constexpr std::array<TimeUnit, 3> kTimeUnits = {{{"h", 3600}, {"min", 60}, {"s", 1}}};

constexpr std::array<std::string_view, 5> kByteUnits = {"", "KiB", "MiB", "GiB", "TiB"};

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  const auto parts = split_number(text);
  if (!parts || parts->first < 0) return std::nullopt;
  if (parts->second == "ep") return Duration{parts->first, Duration::Unit::epochs};
  if (parts->second == "ba") return Duration{parts->first, Duration::Unit::batches};
  if (parts->second == "tok") return Duration{parts->first, Duration::Unit::tokens};
  return std::nullopt;
}

std::string to_string(const Duration& duration) {
  constexpr std::array<const char*, 3> kUnits = {"ep", "ba", "tok"};
  return fmt::format("{}{}", duration.count, kUnits[static_cast<size_t>(duration.unit)]);
}

int64_t product_or_most(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

int64_t batches_in(const Duration& duration, const BatchCounts& batches) {
  if (duration.unit == Duration::Unit::batches) return duration.count;
  if (duration.unit == Duration::Unit::epochs) return product_or_most(duration.count, batches.per_epoch);
  if (batches.tokens < 1) throw std::logic_error("a duration in tokens, and batches without");
  return duration.count / batches.tokens + (duration.count % batches.tokens == 0 ? 0 : 1);
}

std::optional<TimeSpan> parse_time_span(std::string_view text) {
  const auto parts = split_number(text);
  if (!parts || parts->first < 0) return std::nullopt;
  for (const TimeUnit& unit : kTimeUnits) {
    int64_t seconds = 0;
    if (parts->second != unit.name) continue;
    if (__builtin_mul_overflow(parts->first, unit.seconds, &seconds)) return std::nullopt;
    return TimeSpan{seconds};
  }
  return std::nullopt;
}

std::string to_string(const TimeSpan& span) {
  for (const TimeUnit& unit : kTimeUnits) {
    if (span.seconds % unit.seconds == 0 && (span.seconds != 0 || unit.seconds == 1))
      return fmt::format("{}{}", span.seconds / unit.seconds, unit.name);
  }
  return "";
}

int64_t Cadence::count() const {
  if (const auto* span = std::get_if<TimeSpan>(&value)) return span->seconds;
  return std::get<Duration>(value).count;
}

std::optional<Cadence> parse_cadence(std::string_view text) {
  if (const auto duration = parse_duration(text)) return Cadence{*duration};
  if (const auto span = parse_time_span(text)) return Cadence{*span};
  return std::nullopt;
}

std::string to_string(const Cadence& cadence) {
  return std::visit([](const auto& value) { return to_string(value); }, cadence.value);
}

std::optional<ByteSize> parse_byte_size(std::string_view text) {
  const auto parts = split_number(text);
  if (!parts || parts->first < 0) return std::nullopt;
  int64_t factor = 1;
  for (std::string_view unit : kByteUnits) {
    int64_t bytes = 0;
    if (parts->second == unit) {
      if (__builtin_mul_overflow(parts->first, factor, &bytes)) return std::nullopt;
      return ByteSize{bytes};
    }
    factor *= 1024;
  }
  return std::nullopt;
}

std::string human_bytes(int64_t bytes) {
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < kByteUnits.size()) value /= 1024, ++unit;
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, kByteUnits[unit]);
}

std::string to_string(const ByteSize& size) {
  int64_t value = size.bytes;
  size_t unit = 0;
  while (value != 0 && value % 1024 == 0 && unit + 1 < kByteUnits.size()) value /= 1024, ++unit;
  return fmt::format("{}{}", value, kByteUnits[unit]);
}

std::string human_flops(double flops) {
  constexpr std::array<const char*, 6> kUnits = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  size_t unit = 0;
  while (flops >= 1000 && unit + 1 < kUnits.size()) flops /= 1000, ++unit;
  return fmt::format("{:.{}f} {}", flops, unit == 0 ? 0 : 2, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  const auto total = static_cast<int64_t>(std::llround(seconds));
  if (total >= 3600) return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string human_rate(double per_second) {
  constexpr double kNeedsNoFraction = 10;
  return per_second < kNeedsNoFraction ? fmt::format("{:.2g}", per_second)
                                       : fmt::format("{:.0f}", per_second);
}

}  // namespace trainer
