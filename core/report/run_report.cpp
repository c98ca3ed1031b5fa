// SPDX-License-Identifier: Apache-2.0
#include "core/report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/base/regular_file.h"
#include "core/report/html.h"
#include "core/report/sections.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// What of metrics.jsonl the page does not have.
std::string metrics_notes(const RunHistory& history) {
  constexpr size_t kMostNamed = 10;
  std::string html;
  if (history.training.empty() && history.validation.empty())
    html += report_note("metrics.jsonl has no records yet: no curves.");
  if (history.unreadable.empty()) return html;
  std::string lines;
  for (size_t i = 0; i < std::min(history.unreadable.size(), kMostNamed); ++i)
    lines += fmt::format("{}{}", i == 0 ? "" : ", ", history.unreadable[i]);
  return html + report_note(fmt::format(
                    "metrics.jsonl: {} of its lines hold no record and are left out: {}{}",
                    history.unreadable.size(), lines, history.unreadable.size() > kMostNamed ? ", …" : ""));
}

}  // namespace

RunFiles read_files(const fs::path& directory) {
  RunFiles files{.history = read_history(directory), .resumes = read_resumes(directory)};
  files.summary_text = read_text(directory / "summary.json", Links::refuse);
  if (files.summary_text) files.summary = Json::parse_or_null(*files.summary_text);
  const std::optional<std::string> confusion = read_text(directory / "confusion.json", Links::refuse);
  files.has_confusion = confusion.has_value();
  if (confusion) files.confusion = Json::parse_or_null(*confusion);
  return files;
}

std::string report_note(const std::string& text) {
  return fmt::format("<p class=\"note\">{}</p>\n", escaped(text));
}

std::string setting_of(const ReportedRun& run, const std::string& key) {
  const auto found = run.settings.find(key);
  return found == run.settings.end() ? "" : found->second;
}

std::string title_of(const ReportedRun& run) {
  constexpr size_t kMostName = 100;
  std::string name = setting_of(run, "run.name");
  if (name.size() >= 2 && name.front() == '"' && name.back() == '"') name = name.substr(1, name.size() - 2);
  if (name.size() > kMostName) name = name.substr(0, kMostName) + "…";
  if (!name.empty()) return name;
  const fs::path path = fs::absolute(run.overview.directory).lexically_normal();
  return (path.filename().empty() ? path.parent_path() : path).filename().string();
}

std::optional<double> trained_seconds(const RunFiles& files) {
  const Json* training = files.summary.find("training");
  const Json* seconds = training == nullptr ? nullptr : training->find("seconds");
  // A resumed run's summary counts the seconds of its last process only.
  if (seconds != nullptr && seconds->is_number() && files.resumes.empty()) return seconds->number();
  double sum = 0;
  const MetricsRecord* before = nullptr;
  for (const MetricsRecord& record : files.history.training) {
    const bool is_gap = before != nullptr && std::ranges::any_of(files.resumes, [&](int64_t step) {
                          return step >= before->step && step < record.step;
                        });
    if (before != nullptr && !is_gap && record.time && before->time)
      sum += std::max(0.0, *record.time - *before->time);
    before = &record;
  }
  return sum > 0 ? std::optional(sum) : std::nullopt;
}

std::optional<size_t> classes_of(const ReportedRun& run, const RunFiles& files) {
  const Json* confusion = files.confusion.find("confusion");
  const Json* rows = confusion == nullptr ? nullptr : confusion->find("matrix");
  if (rows != nullptr && rows->is_array()) return rows->size();
  // Otherwise the outputs of the last linear layer, if the loss is one of classes.
  if (setting_of(run, "loss.name") != "cross_entropy") return std::nullopt;
  constexpr std::string_view kLayers = "model.layers[", kUnits = "].linear.out_features";
  int64_t last = -1;
  std::optional<size_t> units;
  for (const auto& [key, value] : run.settings) {
    if (!key.starts_with(kLayers) || !key.ends_with(kUnits)) continue;
    int64_t layer = 0;
    size_t count = 0;
    const char* end = value.data() + value.size();
    std::from_chars(key.data() + kLayers.size(), key.data() + key.size(), layer);
    if (layer > last && std::from_chars(value.data(), end, count).ptr == end) last = layer, units = count;
  }
  return units;
}

std::string run_report(const ReportedRun& run) {
  const RunFiles files = read_files(run.overview.directory);
  return html_page(title_of(run), figures_section(run, files) + changed_section(run) +
                                      metrics_notes(files.history) + curves_section(run, files) +
                                      confusion_section(files) + tables_section(run, files));
}

}  // namespace trainer
