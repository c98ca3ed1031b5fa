// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trainer {

/// A length of training: `10ep` (epochs), `500ba` (batches of global_batch_size) or `1000000tok` (tokens).
struct Duration {
  enum class Unit { epochs, batches, tokens };
  int64_t count = 0;
  Unit unit = Unit::epochs;
  bool operator==(const Duration&) const = default;
};

std::optional<Duration> parse_duration(std::string_view text);
std::string to_string(const Duration& duration);

/// a * b for a, b >= 0; the largest number if that is larger.
int64_t product_or_most(int64_t a, int64_t b);

/// Sizes by which durations are converted.
struct BatchCounts {
  int64_t per_epoch = 1;  ///< batches of one epoch
  int64_t tokens = 0;     ///< of one batch; 0: its samples are not tokens
};

/// Batches in `duration`; a last, incomplete one counts. INT64_MAX if they are too many to count.
int64_t batches_in(const Duration& duration, const BatchCounts& batches);

/// A time: `90s`, `30min`, `12h`.
struct TimeSpan {
  int64_t seconds = 0;
  bool operator==(const TimeSpan&) const = default;
};

std::optional<TimeSpan> parse_time_span(std::string_view text);
std::string to_string(const TimeSpan& span);

/// How often something is done: after this many epochs or batches, or so much time.
struct Cadence {
  std::variant<Duration, TimeSpan> value;
  int64_t count() const;  ///< of its unit; 0: never
  bool operator==(const Cadence&) const = default;
};

std::optional<Cadence> parse_cadence(std::string_view text);
std::string to_string(const Cadence& cadence);

/// A number, or `auto`: the program finds one.
struct AutoCount {
  std::optional<int64_t> count;  ///< nothing: auto
  bool operator==(const AutoCount&) const = default;
};

/// `false`, `true`, or a number, which limits what `true` means.
struct FlagOrCount {
  bool flag = false;
  std::optional<int64_t> count;  ///< only of a number, whose flag is true
  bool operator==(const FlagOrCount&) const = default;
};

/// A list of numbers, or `balanced`: they follow from how often each class occurs.
struct NumbersOrBalanced {
  std::vector<double> numbers;
  bool is_balanced = false;
  bool operator==(const NumbersOrBalanced&) const = default;
};

/// An amount of memory: `80GiB`, `512MiB`, `1048576` (bytes). Units are powers of 1024: KiB, MiB, GiB, TiB.
struct ByteSize {
  int64_t bytes = 0;
  bool operator==(const ByteSize&) const = default;
};

std::optional<ByteSize> parse_byte_size(std::string_view text);

/// Three significant digits for people: "1.21 GiB". Exact text that parses again: to_string.
std::string human_bytes(int64_t bytes);
std::string to_string(const ByteSize& size);

/// "12.3 GFLOP", "4.1 MFLOP".
std::string human_flops(double flops);
/// "1:02:03" or "2:03".
std::string human_seconds(double seconds);
/// A number of things a second: "16200", "97", "0.19".
std::string human_rate(double per_second);

}  // namespace trainer
