// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/metrics/csv_file.h"
#include "core/metrics/event_file.h"
#include "core/metrics/metrics.h"
#include "core/metrics/prometheus_file.h"

namespace trainer {

/// The formats that `logging.formats` may name besides JSON lines, which are always written.
constexpr const char* kTensorboard = "tensorboard";
constexpr const char* kCsv = "csv";
constexpr const char* kPrometheus = "prometheus";

/// The metrics files of a run: metrics.jsonl, which is appended to, and files rebuilt from it, so that no
/// step appears twice after metrics.jsonl was cut. Throws Error (exit 65, 74).
class MetricsSinks {
 public:
  /// Writes nothing: only one of several ranks does.
  MetricsSinks() = default;
  /// `metrics` are the names known beforehand, for the head of the table.
  MetricsSinks(
      const std::filesystem::path& directory, const std::vector<std::string>& formats,
      const std::vector<std::string>& metrics,
      std::function<void(const std::string&)> warn = [](const std::string&) {});

  /// To every file, each with one call of write(2), so that a reader sees whole records. A record without a
  /// time gets the present one. A record that cannot be written now is written with a later one, after a
  /// warning.
  void append(MetricsRecord record);
  /// Returns when every file holds all records. Throws Error (exit 74).
  void complete();
  /// Drops the records of steps after this one from every file, and of evaluations after `validated`. Not
  /// while another thread is in sync().
  void cut(int64_t step, int64_t validated);
  /// Returns when metrics.jsonl is on the disk; the rest follows from it. May be called from another thread.
  void sync() {
    if (lines_) lines_->sync();
  }

 private:
  /// The files made from the lines.
  template <class File>
  struct Follower {
    std::optional<File> file;  ///< nothing if it is disabled, or could not be written
    uint64_t missed = 0;       ///< records since then
  };

  void open();
  void open_csv();
  void open_events();
  void open_prometheus();
  bool is_wanted(const char* format) const;

  std::filesystem::path directory_;
  std::shared_ptr<const FileDescriptor>
      held_;  ///< the directory at first; if another takes its place, that gets no table
  std::vector<std::string> formats_, metrics_;
  std::function<void(const std::string&)> warn_;
  std::optional<MetricsWriter> lines_;
  Follower<CsvFile> csv_;
  Follower<EventFile> events_;
  Follower<PrometheusFile> prometheus_;
};

}  // namespace trainer
