// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/units.h"
#include "core/report/html.h"
#include "core/report/readable.h"
#include "core/report/sections.h"

namespace trainer {
namespace {

std::string card(const std::string& figure, const std::string& text) {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>\n", escaped(figure), escaped(text));
}

std::optional<double> number_at(const Json& json, std::initializer_list<const char*> keys) {
  const Json* found = &json;
  for (const char* key : keys) {
    found = found->find(key);
    if (found == nullptr) return std::nullopt;
  }
  return found->is_number() ? std::optional(found->number()) : std::nullopt;
}

std::string seconds_text(double seconds) {
  constexpr double kMinute = 60;
  if (!std::isfinite(seconds)) return number_text(seconds);
  return seconds < kMinute ? fmt::format("{:.3g} s", seconds) : human_seconds(seconds);
}

std::string state_card(const RunOverview& run) {
  const std::string step =
      run.steps ? fmt::format("step {} of {}", run.step, *run.steps) : fmt::format("step {}", run.step);
  return card(std::string(to_string(run.state)), step);
}

std::string best_card(const RunOverview& run, const RunFiles& files) {
  if (!run.best) return "";
  std::string where =
      run.best_step ? fmt::format("best {}, at step {}", run.metric, *run.best_step) : run.metric;
  const double epoch = steps_per_epoch(files.history);
  if (run.best_step && epoch > 0)
    where += fmt::format(" (epoch {:.3g})", static_cast<double>(*run.best_step) / epoch);
  return card(metric_text(*run.best, run.larger_is_better), where);
}

/// The last two parts of a path: "fashion-mnist/train".
std::string short_path(const std::string& text) {
  const std::filesystem::path path = text;
  return (path.parent_path().filename() / path.filename()).string();
}

std::string data_card(const ReportedRun& run, const RunFiles& files) {
  const std::string format = setting_of(run, "data.format"), train = setting_of(run, "data.train");
  const std::optional<size_t> classes = classes_of(run, files);
  if (format.empty()) return "";
  const std::string name =
      train.empty() || train == "\"\"" ? format : short_path(train) + " (" + format + ")";
  return classes ? card(fmt::format("{} classes", *classes), "data " + name) : card(format, "data " + name);
}

std::optional<double> most_memory(const RunFiles& files) {
  if (const auto device = number_at(files.summary, {"device", "memory_bytes"})) return device;
  double most = number_at(files.summary, {"memory", "peak_bytes"}).value_or(0);
  for (const std::vector<MetricsRecord>* records : {&files.history.training, &files.history.validation})
    for (const MetricsRecord& record : *records)
      most = std::max(most, static_cast<double>(record.memory_bytes.value_or(0)));
  return most > 0 ? std::optional(most) : std::nullopt;
}

std::string error_box(const RunOverview& run) {
  if (run.state == RunCondition::lost)
    return "<div class=\"error\"><b>lost</b><br>The run has not ended, and no process works on it: it was "
           "killed. The same command resumes it.</div>\n";
  if (run.state != RunCondition::failed) return "";
  const std::string code = run.exit_code ? fmt::format(" with exit code {}", *run.exit_code) : "";
  return fmt::format("<div class=\"error\"><b>failed{}</b><pre>{}</pre></div>\n", code,
                     escaped(run.message.empty() ? "status.json gives no reason" : run.message));
}

}  // namespace

std::string figures_section(const ReportedRun& run, const RunFiles& files) {
  const RunOverview& overview = run.overview;
  std::string html = fmt::format("<h1>{}</h1>\n<p class=\"sub\">{}</p>\n", escaped(title_of(run)),
                                 escaped(overview.directory.string()));
  html += error_box(overview);
  if (overview.state != RunCondition::failed && !overview.message.empty())
    html += fmt::format("<p>{}</p>\n", escaped(overview.message));
  html += "<div class=\"cards\">\n" + best_card(overview, files) + state_card(overview);
  if (const auto seconds = trained_seconds(files)) html += card(seconds_text(*seconds), "training");
  if (overview.samples_per_s) html += card(rounded_text(*overview.samples_per_s) + "/s", "samples, median");
  if (overview.loss) html += card(number_text(*overview.loss), "last training loss");
  html += data_card(run, files);
  if (const auto bytes = most_memory(files); bytes && *bytes < 9e18)
    html += card(human_bytes(static_cast<int64_t>(*bytes)), "memory");
  return html + "</div>\n";
}

std::string changed_section(const ReportedRun& run) {
  constexpr size_t kMostKeys = 100, kMostText = 80;
  if (run.changed.empty()) return "";
  std::string html;
  for (size_t i = 0; i < std::min(run.changed.size(), kMostKeys); ++i) {
    const ChangedSetting& setting = run.changed[i];
    const bool is_long = setting.value.size() > kMostText;
    const std::string value = is_long ? setting.value.substr(0, kMostText) + "…" : setting.value;
    const std::string usual = setting.usual.empty() ? "no default" : "default: " + setting.usual;
    html += fmt::format("<span class=\"key\" title=\"{}\">{} <b>{}</b></span>\n",
                        escaped(usual.substr(0, 2 * kMostText)), escaped(setting.key), escaped(value));
  }
  if (run.changed.size() > kMostKeys) html += report_note("The recipe below has all keys.");
  return folded(run.changed.size() == 1
                    ? "1 key that is not its default"
                    : fmt::format("{} keys that are not their defaults", run.changed.size()),
                "<div class=\"keys\">" + html + "</div>\n", true);
}

}  // namespace trainer
