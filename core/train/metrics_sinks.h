// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/train/csv_file.h"
#include "core/train/event_file.h"
#include "core/train/metrics.h"

namespace trainer {

/// What `logging.formats` may name beside the lines of JSON, which are always written.
constexpr const char* kTensorboard = "tensorboard";
constexpr const char* kCsv = "csv";

/// The files of a run's directory that tell how it goes: metrics.jsonl, which is continued, and what is made
/// from it, so that no step appears twice after metrics.jsonl has been cut. Throws Error (exit 65, 74).
class MetricsSinks {
 public:
  /// `metrics` are the names known beforehand, for the head of the table.
  MetricsSinks(const std::filesystem::path& directory, const std::vector<std::string>& formats,
               const std::vector<std::string>& metrics);

  /// To every file, each with one call of write(2), so that a reader sees whole records. A record without a
  /// time gets the present one.
  void append(MetricsRecord record);
  /// Drops the records of steps after this one from every file, and of evaluations after `validated`. Not
  /// while another thread is in sync().
  void cut(int64_t step, int64_t validated);
  /// Returns when metrics.jsonl is on the disk; the rest follows from it. May be called from another thread.
  void sync() { lines_->sync(); }

 private:
  void open();

  std::filesystem::path directory_;
  std::vector<std::string> formats_, metrics_;
  std::optional<MetricsWriter> lines_;
  std::optional<CsvFile> csv_;
  std::optional<EventFile> events_;
};

}  // namespace trainer
