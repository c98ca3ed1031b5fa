// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/report/chart.h"
#include "core/report/run_report.h"
#include "core/run/run_history.h"

namespace trainer {

/// The files of a run that its report shows.
struct RunFiles {
  RunHistory history;
  std::vector<int64_t> resumes;             ///< steps
  std::optional<std::string> summary_text;  ///< summary.json
  Json summary, confusion;                  ///< null if they are missing or no JSON
  bool has_confusion = false;
};
RunFiles read_files(const std::filesystem::path& directory);

/// A remark about what a page does not show.
std::string report_note(const std::string& text);

/// A run's name in its recipe, or that of its directory.
std::string title_of(const ReportedRun& run);
/// Seconds of training: those of summary.json, or of a resumed or unfinished run the times between records.
std::optional<double> trained_seconds(const RunFiles& files);
/// "3 classes of images": number of classes, if the confusion matrix or the network says it.
std::optional<size_t> classes_of(const ReportedRun& run, const RunFiles& files);

/// The value of a setting, or "".
std::string setting_of(const ReportedRun& run, const std::string& key);

/// A record's value; absent if it has none.
using Getter = std::function<std::optional<double>(const MetricsRecord&)>;
Points points_of(const std::vector<MetricsRecord>& records, const Getter& value);
/// A curve for each metric, in the order in which they first appear.
std::vector<Series> metric_curves(const std::vector<MetricsRecord>& records);
/// Steps of an epoch; 0 if no record says it.
double steps_per_epoch(const RunHistory& history);

// Sections of a page, in its order. Each is empty if it has nothing to show.
std::string figures_section(const ReportedRun& run, const RunFiles& files);
std::string changed_section(const ReportedRun& run);
std::string curves_section(const ReportedRun& run, const RunFiles& files);
std::string confusion_section(const RunFiles& files);
std::string tables_section(const ReportedRun& run, const RunFiles& files);

}  // namespace trainer
