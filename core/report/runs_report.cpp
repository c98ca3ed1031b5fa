// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/units.h"
#include "core/report/html.h"
#include "core/report/readable.h"
#include "core/report/sections.h"

namespace trainer {
namespace {

constexpr size_t kMostRuns = 24;      // runs; colours and dashes repeat after eight
constexpr size_t kMostListed = 500;   // of the table
constexpr size_t kMostKeys = 12;      // columns of keys
constexpr size_t kMostOverlays = 12;  // charts

/// Best first, of one metric; then runs without a result, in their order.
std::vector<const ReportedRun*> by_result(const std::vector<ReportedRun>& runs) {
  std::vector<const ReportedRun*> sorted;
  for (const ReportedRun& run : runs) sorted.push_back(&run);
  const auto score = [](const ReportedRun* run) {
    const RunOverview& overview = run->overview;
    return !overview.best ? -HUGE_VAL : overview.larger_is_better ? *overview.best : -*overview.best;
  };
  std::ranges::stable_sort(sorted, std::greater(), score);
  return sorted;
}

/// Whether all results are of one metric, so that one of them is the best.
bool has_one_metric(const std::vector<const ReportedRun*>& runs) {
  return std::ranges::all_of(runs, [&](const ReportedRun* run) {
    return !run->overview.best || run->overview.metric == runs[0]->overview.metric;
  });
}

/// What distinguishes runs in a legend: the ends of their paths.
std::vector<std::string> labels_of(const std::vector<const ReportedRun*>& runs) {
  std::vector<std::string> labels;
  for (const ReportedRun* run : runs) labels.push_back(run->overview.directory.lexically_normal().string());
  size_t common = labels.empty() ? 0 : labels[0].size();
  for (const std::string& label : labels) {
    size_t same = 0;
    while (same < std::min(common, label.size()) && label[same] == labels[0][same]) ++same;
    common = same;
  }
  const size_t slash = labels.size() < 2 ? std::string::npos : labels[0].substr(0, common).rfind('/');
  if (slash != std::string::npos)
    for (std::string& label : labels) label = label.substr(slash + 1);
  return labels;
}

/// A setting, or the items of a list.
std::string value_of(const ReportedRun& run, const std::string& key) {
  constexpr size_t kMostText = 60;
  std::string text = setting_of(run, key);
  for (const ChangedSetting& setting : run.changed)
    if (setting.key == key) text = setting.value;
  return text.size() <= kMostText ? text : text.substr(0, kMostText) + "…";
}

class Page {
 public:
  explicit Page(const std::vector<ReportedRun>& runs) : runs_(by_result(runs)), labels_(labels_of(runs_)) {
    for (size_t i = 0; i < std::min(runs_.size(), kMostRuns); ++i)
      files_.push_back(read_files(runs_[i]->overview.directory));
    std::vector<Settings> settings;
    for (const ReportedRun& run : runs) settings.push_back(run.settings);
    // A list is one key: its items have many.
    for (const std::string& key : differing_keys(settings)) {
      const std::string whole = key.substr(0, key.find('['));
      if (std::ranges::find(keys_, whole) == keys_.end()) keys_.push_back(whole);
    }
  }

  std::string html() {
    std::string body = fmt::format("<h1>{} runs</h1>\n", runs_.size());
    body += summary() + results() + curves();
    return html_page(fmt::format("{} runs", runs_.size()), body);
  }

 private:
  std::string summary() const {
    const RunOverview& best = runs_[0]->overview;
    std::string text = keys_.empty() ? "Their recipes do not differ." : "They differ in ";
    for (size_t i = 0; i < std::min(keys_.size(), kMostKeys); ++i) text += (i == 0 ? "" : ", ") + keys_[i];
    if (keys_.size() > kMostKeys) text += fmt::format(" and {} more keys", keys_.size() - kMostKeys);
    std::string html = fmt::format("<p class=\"sub\">{}</p>\n", escaped(text));
    if (!best.best || !has_one_metric(runs_)) return html;
    return html +
           fmt::format("<div class=\"cards\"><div class=\"card\"><b>{}</b><span>{}</span></div></div>\n",
                       escaped(metric_text(*best.best, best.larger_is_better)),
                       escaped(fmt::format("best {}: {}", best.metric, labels_[0])));
  }

  std::vector<std::string> row(size_t i, const std::vector<std::string>& keys) const {
    const ReportedRun& run = *runs_[i];
    const RunOverview& overview = run.overview;
    const std::string best = !overview.best ? "" : metric_text(*overview.best, overview.larger_is_better);
    std::vector<std::string> cells = {
        labels_[i], has_one_metric(runs_) || best.empty() ? best : overview.metric + " " + best,
        overview.best && overview.best_step ? fmt::format("{}", *overview.best_step) : ""};
    for (const std::string& key : keys) cells.push_back(value_of(run, key));
    cells.push_back(overview.loss ? number_text(*overview.loss) : "");
    cells.push_back(overview.samples_per_s ? rounded_text(*overview.samples_per_s) : "");
    const std::optional<double> seconds = i < files_.size() ? trained_seconds(files_[i]) : std::nullopt;
    cells.push_back(seconds ? human_seconds(*seconds) : "");
    cells.push_back(overview.steps ? fmt::format("{}/{}", overview.step, *overview.steps)
                                   : fmt::format("{}", overview.step));
    std::string state(to_string(overview.state));
    if (!overview.message.empty() && overview.state == RunCondition::failed)
      state += ": " + overview.message.substr(0, overview.message.find('\n'));
    cells.push_back(state);
    return cells;
  }

  std::string results() const {
    const std::vector<std::string> keys(
        keys_.begin(), keys_.begin() + static_cast<int64_t>(std::min(keys_.size(), kMostKeys)));
    const bool has_best = runs_[0]->overview.best && has_one_metric(runs_);
    std::vector<std::string> head = {"run", has_best ? "best " + runs_[0]->overview.metric : "best",
                                     "at step"};
    for (const std::string& name : short_names(keys)) head.push_back(name);
    for (const char* name : {"loss", "samples/s", "time", "step", "state"}) head.emplace_back(name);
    std::vector<std::vector<std::string>> rows;
    for (size_t i = 0; i < std::min(runs_.size(), kMostListed); ++i) rows.push_back(row(i, keys));
    std::string html = "<h2>Results</h2>\n<div class=\"wide\">" +
                       html_table(head, rows, has_best ? std::optional<size_t>(0) : std::nullopt) +
                       "</div>\n";
    if (rows.size() < runs_.size())
      html += report_note(fmt::format("{} of {} runs are listed.", rows.size(), runs_.size()));
    return html;
  }

  std::string legend() const {
    std::string html = "<p class=\"marks\">";
    for (size_t i = 0; i < files_.size(); ++i)
      html += curve_sample(i) + " " + escaped(labels_[i]) + " &#160; ";
    return html + "</p>\n";
  }

  /// Runs with other batches reach an epoch at other steps: epochs are then the axis.
  bool is_by_epoch() const {
    double least = HUGE_VAL, most = 0;
    for (const RunFiles& files : files_) {
      const double steps = steps_per_epoch(files.history);
      if (steps > 0) least = std::min(least, steps), most = std::max(most, steps);
    }
    return most > least * 1.001;
  }

  double end_of_axis() const {
    double end = 0;
    for (const RunFiles& files : files_)
      for (const std::vector<MetricsRecord>* records : {&files.history.training, &files.history.validation})
        for (const MetricsRecord& record : *records)
          end = std::max(end, by_epoch_ ? record.epoch : static_cast<double>(record.step));
    return end;
  }

  std::string curves() {
    by_epoch_ = is_by_epoch();
    end_ = end_of_axis();
    std::string charts;
    const auto loss = [](const MetricsRecord& record) { return std::optional(record.loss); };
    charts += overlay("training loss", [&](const RunFiles& files) {
      const Points points = points_of(files.history.training, loss);
      const Points smooth = smoothed(points);
      return smooth.empty() ? points : smooth;
    });
    charts += overlay("validation loss",
                      [&](const RunFiles& files) { return points_of(files.history.validation, loss); });
    std::vector<std::string> names;
    std::vector<std::map<std::string, Points>> metrics;
    for (const RunFiles& files : files_) {
      auto& found = metrics.emplace_back();
      for (Series& curve : metric_curves(files.history.validation)) {
        if (std::ranges::find(names, curve.name) == names.end() && names.size() < kMostOverlays)
          names.push_back(curve.name);
        if (std::ranges::find(names, curve.name) != names.end()) found[curve.name] = std::move(curve.points);
      }
    }
    for (const std::string& name : names)
      charts += overlay(name, [&](const RunFiles& files) {
        return metrics[static_cast<size_t>(&files - files_.data())][name];
      });
    charts += overlay("learning rate", [](const RunFiles& files) {
      return points_of(files.history.training, [](const MetricsRecord& record) { return record.lr; });
    });
    if (charts.empty()) return report_note("No run has records yet: no curves.");
    std::string html = "<h2>Curves</h2>\n" + legend();
    if (files_.size() < runs_.size())
      html += report_note(fmt::format("The best {} of {} runs are drawn.", files_.size(), runs_.size()));
    return html + "<div class=\"charts\">\n" + charts + "</div>\n";
  }

  std::string overlay(const std::string& title, const std::function<Points(const RunFiles&)>& points) const {
    Chart chart{.title = title, .axis = by_epoch_ ? "epoch" : "step"};
    for (size_t i = 0; i < files_.size(); ++i) {
      Series series{.name = "", .points = points(files_[i]), .color = i};
      const double per_epoch = steps_per_epoch(files_[i].history);
      if (by_epoch_ && per_epoch <= 0) continue;
      if (by_epoch_)
        for (auto& point : series.points) point.first /= per_epoch;
      if (!by_epoch_ && per_epoch > 0) chart.steps_per_epoch = per_epoch;
      chart.series.push_back(std::move(series));
    }
    chart.end = end_;
    return line_chart(chart);
  }

  std::vector<const ReportedRun*> runs_;
  std::vector<std::string> labels_, keys_;
  std::vector<RunFiles> files_;
  bool by_epoch_ = false;
  double end_ = 0;  ///< of the axis that the charts share
};

}  // namespace

std::string runs_report(const std::vector<ReportedRun>& runs) {
  return Page(runs).html();
}

}  // namespace trainer
