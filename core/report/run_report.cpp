// SPDX-License-Identifier: Apache-2.0
#include "core/report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "core/base/json.h"
#include "core/base/regular_file.h"
#include "core/base/version.h"
#include "core/report/chart.h"
#include "core/report/html.h"
#include "core/run/run_history.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostRows = 100;    // of a table of numbers
constexpr size_t kMostClasses = 40;  // of a confusion matrix that is shown
constexpr double kMiB = 1024.0 * 1024;

constexpr const char* kStyle = R"(
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 52em; margin: 2em auto; padding: 0 1em; color: #1a1a1a; background: #fff; }
h1 { font-size: 1.6em; margin-bottom: 0; } h2 { font-size: 1.2em; margin-top: 2em; border-bottom: 1px solid #ccc; }
svg { width: 100%; height: auto; margin: 0.5em 0; break-inside: avoid; }
svg text { font: 11px system-ui, sans-serif; fill: #333; } svg text.title { font-size: 13px; font-weight: 600; }
svg polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round; } svg .grid { stroke: #ddd; stroke-width: 1; }
table { border-collapse: collapse; margin: 0.5em 0; font-size: 13px; } thead { display: table-header-group; }
th, td { padding: 0.15em 0.7em; text-align: left; border-bottom: 1px solid #e5e5e5; overflow-wrap: anywhere; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } tr { break-inside: avoid; }
table.matrix td, table.matrix th { padding: 0.15em 0.4em; text-align: right; border: 1px solid #fff; }
.wide { overflow-x: auto; } .head td.n { text-align: left; } .note { color: #8a3b00; }
pre { background: #f6f6f6; padding: 1em; font-size: 12.5px; white-space: pre-wrap; overflow-wrap: anywhere; }
@media print { body { margin: 0; max-width: none; font-size: 11pt; } pre { background: none; border: 1px solid #ccc; } }
)";

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value)
         : std::isnan(value)  ? "NaN"
         : value > 0          ? "inf"
                              : "-inf";
}

/// A record's value; absent if it has none.
using Getter = std::function<std::optional<double>(const MetricsRecord&)>;

/// Share of a step's time spent waiting for data, in percent.
std::optional<double> data_wait(const MetricsRecord& record) {
  if (!record.data_wait_ms) return std::nullopt;
  const double all = *record.data_wait_ms + record.forward_ms.value_or(0) + record.backward_ms.value_or(0) +
                     record.update_ms.value_or(0);
  return all > 0 ? std::optional(100 * *record.data_wait_ms / all) : std::nullopt;
}

/// A curve for each metric, in the order in which they first appear.
std::vector<Series> metric_curves(const std::vector<MetricsRecord>& records) {
  std::vector<Series> curves;
  std::map<std::string, size_t> known;
  for (const MetricsRecord& record : records) {
    for (const auto& [name, value] : record.metrics) {
      const auto [found, is_new] = known.try_emplace(name, curves.size());
      if (is_new) curves.push_back({.name = name, .points = {}});
      curves[found->second].points.emplace_back(static_cast<double>(record.step), to_double(value));
    }
  }
  return curves;
}

/// Evenly chosen, with the first and the last.
std::vector<MetricsRecord> some_of(const std::vector<MetricsRecord>& records, size_t most) {
  if (records.size() <= most) return records;
  std::vector<MetricsRecord> chosen;
  for (size_t i = 0; i < most; ++i) chosen.push_back(records[i * (records.size() - 1) / (most - 1)]);
  return chosen;
}

/// Puts the page together, section by section.
class Page {
 public:
  explicit Page(const RunOverview& run) : run_(run), history_(read_history(run.directory)) {}

  std::string text() {
    head();
    notes();
    charts();
    numbers();
    guards();
    matrix();
    file("Summary", "summary.json");
    file("Recipe", "recipe.yaml");
    return std::move(html_) + "</body></html>\n";
  }

 private:
  void head() {
    const std::string name =
        fs::absolute(run_.directory).lexically_normal().filename().empty()
            ? fs::absolute(run_.directory).lexically_normal().parent_path().filename().string()
            : fs::absolute(run_.directory).lexically_normal().filename().string();
    html_ = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width\">\n<title>{0}</title>\n<style>{1}</style></head>\n<body>\n<h1>{0}</"
        "h1>\n",
        escaped(name), kStyle);
    std::vector<std::vector<std::string>> rows = {
        {"directory", run_.directory.string()},
        {"state", std::string(to_string(run_.state))},
        {"step",
         run_.steps ? fmt::format("{} of {}", run_.step, *run_.steps) : fmt::format("{}", run_.step)}};
    if (run_.best) rows.push_back({"best " + run_.metric, number(*run_.best)});
    if (run_.loss) rows.push_back({"last training loss", number(*run_.loss)});
    if (run_.samples_per_s) rows.push_back({"samples per second, median", number(*run_.samples_per_s)});
    if (!run_.message.empty()) rows.push_back({"ended with", run_.message});
    rows.push_back({"written by", fmt::format("trainer {}", kVersion)});
    html_ += "<div class=\"head\">" + html_table({"", ""}, rows) + "</div>\n";
  }

  void note(const std::string& text) { html_ += fmt::format("<p class=\"note\">{}</p>\n", escaped(text)); }

  void notes() {
    if (history_.training.empty() && history_.validation.empty())
      note("metrics.jsonl has no records yet: no curves.");
    if (history_.unreadable.empty()) return;
    std::string lines;
    for (size_t i = 0; i < std::min<size_t>(history_.unreadable.size(), 10); ++i)
      lines += fmt::format("{}{}", i == 0 ? "" : ", ", history_.unreadable[i]);
    note(fmt::format("metrics.jsonl: {} of its lines hold no record and are left out: {}{}",
                     history_.unreadable.size(), lines, history_.unreadable.size() > 10 ? ", …" : ""));
  }

  Series series(const std::string& name, const std::vector<MetricsRecord>& records, const Getter& value) {
    Series series{.name = name};
    for (const MetricsRecord& record : records)
      if (const std::optional<double> found = value(record))
        series.points.emplace_back(static_cast<double>(record.step), *found);
    return series;
  }

  void chart(const std::string& title, const std::string& unit, std::vector<Series> all) {
    size_t points = 0, finite = 0;
    for (const Series& each : all) {
      points += each.points.size();
      for (const auto& point : each.points) finite += std::isfinite(point.second) ? 1 : 0;
    }
    std::erase_if(all, [](const Series& each) { return each.points.empty(); });
    html_ += line_chart(title, unit, all);
    if (finite < points)
      note(fmt::format("{}: {} of {} values are not finite and are not drawn.", title, points - finite,
                       points));
  }

  void charts() {
    const auto& training = history_.training;
    const auto& validation = history_.validation;
    html_ += "<h2>Curves</h2>\n";
    const auto loss = [](const MetricsRecord& record) { return std::optional(record.loss); };
    chart("loss", "", {series("training", training, loss), series("validation", validation, loss)});
    for (Series& curve : metric_curves(validation))
      chart(curve.name, "", {{.name = "validation", .points = std::move(curve.points)}});
    chart("learning rate", "", {series("", training, [](const MetricsRecord& record) { return record.lr; })});
    chart("gradients' norm", "",
          {series("", training, [](const MetricsRecord& record) { return record.grad_norm; })});
    chart("throughput", "samples per second",
          {series("", training, [](const MetricsRecord& record) { return record.samples_per_s; })});
    chart("wait for data", "% of a step", {series("", training, data_wait)});
    chart("memory", "MiB", {series("", training, [](const MetricsRecord& record) {
            return record.memory_bytes ? std::optional(static_cast<double>(*record.memory_bytes) / kMiB)
                                       : std::nullopt;
          })});
  }

  void table(const std::string& title, const std::vector<MetricsRecord>& records) {
    if (records.empty()) return;
    const std::vector<MetricsRecord> shown = some_of(records, kMostRows);
    html_ += fmt::format("<h2>{}</h2>\n", escaped(title));
    if (shown.size() < records.size())
      html_ += fmt::format("<p>{} of {} records, evenly chosen; metrics.jsonl has all.</p>\n", shown.size(),
                           records.size());
    std::vector<std::string> head = {"step", "epoch"};
    for (const auto& [key, value] : numbers_of(shown.back()))
      if (key != "step" && key != "updates" && key != "epoch" && key != "time") head.push_back(key);
    std::vector<std::vector<std::string>> rows;
    for (const MetricsRecord& record : shown) {
      std::map<std::string, Number> values;
      for (const auto& [key, value] : numbers_of(record)) values.emplace(key, value);
      std::vector<std::string> row;
      for (const std::string& key : head) {
        const auto found = values.find(key);
        row.push_back(found == values.end() ? "" : number(to_double(found->second)));
      }
      rows.push_back(row);
    }
    html_ += "<div class=\"wide\">" + html_table(head, rows) + "</div>\n";
  }

  void numbers() {
    table("Validation", history_.validation);
    table("Training", history_.training);
  }

  void guards() {
    if (history_.guard.empty()) return;
    html_ += "<h2>Decisions of the guards</h2>\n";
    const std::vector<MetricsRecord> shown = some_of(history_.guard, kMostRows);
    if (shown.size() < history_.guard.size())
      html_ += fmt::format("<p>{} of {}, evenly chosen.</p>\n", shown.size(), history_.guard.size());
    std::vector<std::vector<std::string>> rows;
    for (const MetricsRecord& record : shown)
      rows.push_back({fmt::format("{}", record.step), record.event.value_or(record.split),
                      record.reason.value_or(""), record.in_a_row ? fmt::format("{}", *record.in_a_row) : "",
                      number(record.loss)});
    html_ += html_table({"step", "decision", "reason", "in a row", "loss"}, rows);
  }

  std::optional<std::string> content(const char* name) {
    const fs::path path = run_.directory / name;
    return read_text(path, Links::refuse);
  }

  void file(const std::string& title, const char* name) {
    html_ += fmt::format("<h2>{}</h2>\n", title);
    if (const std::optional<std::string> text = content(name)) {
      html_ += fmt::format("<pre>{}</pre>\n", escaped(*text));
    } else {
      note(fmt::format(
          "{} is not there{}", name,
          run_.state == RunCondition::finished ? "." : "; a run writes it when it is finished, or begins."));
    }
  }

  void matrix() {
    const std::optional<std::string> text = content("confusion.json");
    if (!text) return;
    html_ += "<h2>Confusion matrix</h2>\n";
    const Json all = Json::parse_or_null(*text);
    const Json* confusion = all.find("confusion");
    const Json json = confusion == nullptr ? Json() : *confusion;
    const Json* rows = json.find("matrix");
    if (rows == nullptr || !rows->is_array()) return note("confusion.json holds no matrix and is left out.");
    if (rows->size() > kMostClasses)
      return note(
          fmt::format("{} classes are too many to draw; confusion.json has the numbers.", rows->size()));
    html_ +=
        "<p>A row for each label, a column for each prediction.</p>\n<div class=\"wide\"><table "
        "class=\"matrix\"><tr><th></th>";
    const auto name = [&](size_t i) {
      const Json* classes = json.find("classes");
      const bool has_name =
          classes != nullptr && classes->is_array() && i < classes->size() && (*classes)[i].is_text();
      return has_name ? (*classes)[i].text() : fmt::format("{}", i);
    };
    for (size_t i = 0; i < rows->size(); ++i) html_ += fmt::format("<th>{}</th>", escaped(name(i)));
    html_ += "</tr>\n";
    for (size_t i = 0; i < rows->size(); ++i) html_ += matrix_row(name(i), (*rows)[i]);
    html_ += "</table></div>\n";
  }

  /// Darker if more of the label's samples are.
  static std::string matrix_row(const std::string& name, const Json& row) {
    std::string html = fmt::format("<tr><th>{}</th>", escaped(name));
    double all = 0;
    if (!row.is_array()) return html + "</tr>\n";
    for (const Json& cell : row.items()) all += cell.is_number() ? cell.number() : 0;
    for (const Json& cell : row.items()) {
      const double share = all > 0 && cell.is_number() ? cell.number() / all : 0;
      html += fmt::format("<td style=\"background: rgba(0, 96, 168, {:.3f}); color: {}\">{:.0f}</td>", share,
                          share > 0.5 ? "#fff" : "#1a1a1a", cell.is_number() ? cell.number() : 0);
    }
    return html + "</tr>\n";
  }

  const RunOverview& run_;
  RunHistory history_;
  std::string html_;
};

}  // namespace

std::string run_report(const RunOverview& run) {
  return Page(run).text();
}

}  // namespace trainer
