// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/file.h"
#include "core/base/variant.h"

namespace trainer {

using Number = std::variant<int64_t, double>;
using NamedNumbers = std::vector<std::pair<std::string, Number>>;
double to_double(const Number& number);

/// The event of an evaluation that is no candidate for the best: at a pause, or while weights are still
/// pruned.
constexpr const char* kUndecided = "undecided";

/// One line of metrics.jsonl. Times are milliseconds per step; absent values are not written.
struct MetricsRecord {
  int64_t step = 0, updates = 0;
  double epoch = 0;
  std::string split;
  double loss = 0;
  NamedNumbers metrics;
  std::optional<double> lr, grad_norm, samples_per_s, tokens_per_s, data_wait_ms, forward_ms, backward_ms,
      update_ms;
  std::optional<int64_t> memory_bytes;
  std::optional<double> loss_scale;
  std::optional<int64_t> skipped;  ///< steps so far that changed nothing
  /// Of a guard's decision: "skip", "roll_back" or "stop", why, and how many steps in a row were skipped for
  /// such reasons. Of validation: kUndecided, if it decides nothing.
  std::optional<std::string> event, reason;
  std::optional<int64_t> in_a_row;
  std::optional<double> time;  ///< when it was written, in Unix seconds
};

/// The record as one JSON object without line breaks, its keys in the order above. JSON has no infinities and
/// no NaN: they become null, and `non_finite` lists their keys.
std::string to_json(const MetricsRecord& record);

/// Parses a line from it; null becomes NaN. Nothing if the text is not a record.
std::optional<MetricsRecord> parse_record(std::string_view line);

/// Calls `take` for each line of the file, or never if there is none. Throws Error: exit 65 naming a line
/// that holds no record, 74 if the file cannot be read.
void read_records(const std::filesystem::path& path, const std::function<void(const MetricsRecord&)>& take);

/// The numbers of a record under their keys, in the order of the line. A value that is not finite is NaN, as
/// it is when it comes back from a line.
NamedNumbers numbers_of(const MetricsRecord& record);

/// The same without the axes of a plot: step, updates, epoch and time.
NamedNumbers curves_of(const MetricsRecord& record);

/// One of them; NaN too. Nothing if the record lacks it.
std::optional<double> number_in(const MetricsRecord& record, std::string_view key);

/// The keys of every possible line with metrics of these names, in order.
std::vector<std::string> record_keys(const std::vector<std::string>& metrics);

/// Appends records to a file, each with one call of write(2), so that a reader sees whole lines. A line that
/// cannot be written (full disk) waits for the next call, so it does not end a run.
class MetricsWriter {
 public:
  /// Throws Error (exit 74).
  explicit MetricsWriter(const std::filesystem::path& path);
  void append(const MetricsRecord& record);
  /// Returns when all that was appended is on the disk. May be called from another thread. Throws Error
  /// (exit 74) if something still cannot be written.
  void sync();
  /// Whether some of it has not been written yet.
  bool is_behind();

 private:
  int write_waiting();

  std::filesystem::path path_;
  FileDescriptor file_;
  std::mutex mutex_;     ///< for the members below
  std::string waiting_;  ///< lines, or the rest of them
};

/// Keeps lines up to `step`, and validation lines up to `validated`: the metrics of a run that resumes there.
/// Removes an incomplete last line too. Throws Error (exit 74).
void cut_metrics(const std::filesystem::path& path, int64_t step, int64_t validated);

using SummaryValue = Variant<int64_t, double, std::string, bool>;
/// Dotted names and their values: `validation.last.top1` becomes {"validation": {"last": {"top1": …}}}.
using Summary = std::vector<std::pair<std::string, SummaryValue>>;

/// Writes summary.json atomically, non-finite values as in to_json. Throws Error (exit 74).
void write_summary(const std::filesystem::path& path, const Summary& summary);

/// The `finished` of a summary.json; nothing if the file or the value is missing.
std::optional<bool> read_finished(const std::filesystem::path& path);

}  // namespace trainer
