// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/units.h"
#include "core/config/file_path.h"
#include "core/config/value.h"

namespace trainer {

/// Parses the whole of `text` (a leading '+' allowed), independent of the locale; the error says why not.
template <class T>
std::errc parse_whole(std::string_view text, T& out) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), out);
  return end == text.data() + text.size() ? status : std::errc::invalid_argument;
}

/// How a recipe writes a number that has a unit.
template <class T>
struct WithUnit;

template <>
struct WithUnit<Duration> {
  static constexpr const char* kExpected =
      "a duration such as 10ep (epochs), 500ba (batches) or 1000000tok (tokens)";
  static std::optional<Duration> parse(std::string_view text) { return parse_duration(text); }
  static int64_t count(const Duration& duration) { return duration.count; }
};

template <>
struct WithUnit<TimeSpan> {
  static constexpr const char* kExpected = "a time such as 90s, 30min or 12h";
  static std::optional<TimeSpan> parse(std::string_view text) { return parse_time_span(text); }
  static int64_t count(const TimeSpan& span) { return span.seconds; }
};

template <>
struct WithUnit<Cadence> {
  static constexpr const char* kExpected =
      "a time such as 10min, or a duration such as 1ep, 500ba or 1000000tok";
  static std::optional<Cadence> parse(std::string_view text) { return parse_cadence(text); }
  static int64_t count(const Cadence& cadence) { return cadence.count(); }
};

template <>
struct WithUnit<ByteSize> {
  static constexpr const char* kExpected = "a size such as 512MiB or 80GiB";
  static std::optional<ByteSize> parse(std::string_view text) { return parse_byte_size(text); }
  static int64_t count(const ByteSize& size) { return size.bytes; }
};

// parse(): reads a scalar; returns a description of the expected value if it is something else, otherwise
// nothing.

inline std::string parse(const Value& value, bool& out) {
  if (value.quoted || (value.text != "true" && value.text != "false")) return "true or false";
  out = value.text == "true";
  return "";
}

inline std::string parse(const Value& value, double& out) {
  if (value.quoted) return "a number";
  const std::errc status = parse_whole(value.text, out);
  if (status == std::errc::result_out_of_range) return "a number within the range of 64-bit floating point";
  if (status != std::errc{}) return "a number";
  return std::isfinite(out) ? "" : "a finite number";
}

/// Also whole numbers such as 1e6, as far as a double holds them exactly.
inline std::string parse(const Value& value, int64_t& out) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.quoted) return "an integer";
  const std::errc status = parse_whole(value.text, out);
  if (status == std::errc{}) return "";
  if (status == std::errc::result_out_of_range) return "an integer within 64 bits";
  double number = 0;
  if (!parse(value, number).empty() || std::trunc(number) != number || std::abs(number) > kExact)
    return "an integer";
  out = static_cast<int64_t>(number);
  return "";
}

inline std::string parse(const Value& value, std::string& out) {
  out = value.text;
  return "";
}

/// Of no place yet.
inline std::string parse(const Value& value, FilePath& out) {
  out = FilePath(value.text);
  return "";
}

/// A number with a unit.
template <class T>
requires requires {
  WithUnit<T>::kExpected;
}
std::string parse(const Value& value, T& out) {
  const std::optional<T> parsed = WithUnit<T>::parse(value.text);
  if (parsed) out = *parsed;
  return parsed ? "" : WithUnit<T>::kExpected;
}

inline std::string parse(const Value& value, AutoCount& out) {
  int64_t count = 0;
  out.count.reset();
  if (value.text == "auto") return "";
  const std::string expected = parse(value, count);
  if (expected.empty()) out.count = count;
  return expected.empty() ? "" : expected + " or auto";
}

inline std::string parse(const Value& value, FlagOrCount& out) {
  out = {};
  if (parse(value, out.flag).empty()) return "";
  int64_t count = 0;
  if (const std::string expected = parse(value, count); !expected.empty())
    return "true, false or " + expected;
  out = {.flag = true, .count = count};
  return "";
}

// article(): the expected kind, for a value that is not a scalar.
inline const char* article(bool) {
  return "true or false";
}
inline const char* article(int64_t) {
  return "an integer";
}
inline const char* article(double) {
  return "a number";
}
inline const char* article(const std::string&) {
  return "text";
}
inline const char* article(const FilePath&) {
  return "a path";
}
template <class T>
const char* article(const T&) {
  return WithUnit<T>::kExpected;
}
inline const char* article(const AutoCount&) {
  return "an integer or auto";
}

inline const char* article(const FlagOrCount&) {
  return "true, false or an integer";
}

inline const char* plural(int64_t) {
  return "integers";
}
inline const char* plural(double) {
  return "numbers";
}
inline const char* plural(const std::string&) {
  return "texts";
}

// measure(): the number that bounds apply to.
inline std::optional<double> measure(bool) {
  return std::nullopt;
}
inline std::optional<double> measure(const std::string&) {
  return std::nullopt;
}
inline std::optional<double> measure(const FilePath&) {
  return std::nullopt;
}
inline std::optional<double> measure(int64_t number) {
  return static_cast<double>(number);
}
inline std::optional<double> measure(double number) {
  return number;
}
template <class T>
std::optional<double> measure(const T& value) {
  return static_cast<double>(WithUnit<T>::count(value));
}
inline std::optional<double> measure(const AutoCount& maybe) {
  return maybe.count ? measure(*maybe.count) : std::nullopt;
}
inline std::optional<double> measure(const FlagOrCount& maybe) {
  return maybe.count ? measure(*maybe.count) : std::nullopt;
}

}  // namespace trainer
