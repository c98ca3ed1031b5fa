// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/metrics/metrics.h"

namespace trainer {

/// The last record of each split as gauges in Prometheus' text format, for the textfile collector of
/// node_exporter: `trainer_loss{run="NAME",split="train"} 0.31`. Each record replaces the file at once, so
/// that a reader sees a whole one; it is not made durable, since the lines are. Throws Error (exit 74; 65 for
/// a metrics.jsonl that cannot be read).
class PrometheusFile {
 public:
  /// Begins with the records in `lines`. The run has the name of the directory that `path` is in.
  PrometheusFile(const std::filesystem::path& path, const std::filesystem::path& lines);

  void append(const MetricsRecord& record);

 private:
  void write() const;

  std::filesystem::path path_;
  std::string run_;
  std::map<std::string, NamedNumbers> last_;  ///< of each split
};

}  // namespace trainer
