// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/report/html.h"
#include "core/report/readable.h"
#include "core/report/sections.h"

namespace trainer {
namespace {

constexpr double kMiB = 1024.0 * 1024;
constexpr size_t kMostMetrics = 40;  // that are drawn
constexpr size_t kMostMarks = 50;    // of one kind

/// Share of a step's time spent waiting for data, in percent.
std::optional<double> data_wait(const MetricsRecord& record) {
  if (!record.data_wait_ms) return std::nullopt;
  const double all = *record.data_wait_ms + record.forward_ms.value_or(0) + record.backward_ms.value_or(0) +
                     record.update_ms.value_or(0);
  return all > 0 ? std::optional(100 * *record.data_wait_ms / all) : std::nullopt;
}

std::optional<double> memory(const MetricsRecord& record) {
  return record.memory_bytes ? std::optional(static_cast<double>(*record.memory_bytes) / kMiB) : std::nullopt;
}

/// A number of the line by its key, times `factor`.
Getter number_of(const char* key, double factor = 1) {
  return [key, factor](const MetricsRecord& record) -> std::optional<double> {
    const auto is_it = [&](const auto& number) { return number.first == key; };
    const auto found = std::ranges::find_if(record.metrics, is_it);
    return found == record.metrics.end() ? std::nullopt : std::optional(factor * to_double(found->second));
  };
}

/// The steps at which a constant learning rate falls to another constant one, as a schedule with steps or
/// a plateau makes it.
std::vector<double> rate_drops(const Points& rates) {
  std::vector<double> steps;
  for (size_t i = 2; i < rates.size(); ++i) {
    const double before = rates[i - 1].second, now = rates[i].second;
    const bool was_flat = rates[i - 2].second == before,
               stays = i + 1 == rates.size() || rates[i + 1].second == now;
    if (now < before && was_flat && stays) steps.push_back(rates[i].first);
  }
  return steps;
}

std::optional<double> early_stop(const RunFiles& files) {
  const Json* stop = files.summary.find("early_stop");
  const Json* stopped = stop == nullptr ? nullptr : stop->find("stopped");
  const Json* steps = files.summary.find("steps");
  const bool is_stopped = stopped != nullptr && stopped->is_boolean() && stopped->boolean();
  if (!is_stopped || steps == nullptr || !steps->is_number()) return std::nullopt;
  return steps->number();
}

std::vector<Mark> marks_of(const RunOverview& run, const RunFiles& files, const Points& rates) {
  std::vector<Mark> marks;
  for (const int64_t step : files.resumes)
    if (marks.size() < kMostMarks)
      marks.push_back(
          {Mark::Kind::resume, static_cast<double>(step), fmt::format("resumed after step {}", step)});
  size_t drops = 0;
  for (const double step : rate_drops(rates))
    if (++drops <= kMostMarks)
      marks.push_back({Mark::Kind::drop, step, fmt::format("learning rate drops by step {:.15g}", step)});
  if (const auto step = early_stop(files))
    marks.push_back({Mark::Kind::stop, *step, fmt::format("early stop at step {:.15g}", *step)});
  if (run.best && run.best_step)
    marks.push_back({Mark::Kind::best, static_cast<double>(*run.best_step),
                     fmt::format("best {} at step {}", run.metric, *run.best_step)});
  return marks;
}

/// A sentence for each kind of vertical line, with its look.
std::string legend_of(const std::vector<Mark>& marks) {
  std::string html;
  for (const auto& [kind, look, several] :
       {std::tuple(Mark::Kind::best, "best", ""), std::tuple(Mark::Kind::resume, "resume", "resumed"),
        std::tuple(Mark::Kind::drop, "drop", "the learning rate drops"),
        std::tuple(Mark::Kind::stop, "stop", "")}) {
    std::vector<std::string> names;
    for (const Mark& mark : marks)
      if (mark.kind == kind) names.push_back(mark.name);
    if (names.empty()) continue;
    const std::string text =
        names.size() == 1 ? names[0] : fmt::format("{} ({} times)", several, names.size());
    html += fmt::format(
        "<svg class=\"sample\" viewBox=\"0 0 28 10\"><line class=\"mark {}\" x1=\"0\" y1=\"5\" x2=\"28\" "
        "y2=\"5\"/></svg> {} &#160; ",
        look, escaped(text));
  }
  return html.empty() ? "" : "<p class=\"marks\">" + html + "</p>\n";
}

/// The charts of a run; they share the axis of steps.
class Charts {
 public:
  Charts(const ReportedRun& run, const RunFiles& files) : files_(files) {
    const RunHistory& history = files.history;
    rates_ = points_of(history.training, [](const MetricsRecord& record) { return record.lr; });
    marks_ = marks_of(run.overview, files, rates_);
    per_epoch_ = steps_per_epoch(history);
    for (const std::vector<MetricsRecord>* records : {&history.training, &history.validation})
      for (const MetricsRecord& record : *records) end_ = std::max(end_, static_cast<double>(record.step));
  }

  std::string html() {
    learning();
    std::string html = legend_of(marks_) + "<div class=\"charts\">\n" + std::move(charts_) + "</div>\n";
    charts_.clear();
    machine();
    if (!charts_.empty()) html += "<div class=\"charts small\">\n" + charts_ + "</div>\n";
    return html + notes_;
  }

 private:
  void learning() {
    const RunHistory& history = files_.history;
    const auto loss = [](const MetricsRecord& record) { return std::optional(record.loss); };
    std::vector<Series> losses = with_smoothed("training", points_of(history.training, loss));
    losses.push_back({"validation", points_of(history.validation, loss), Series::Look::dots, 1});
    add({.title = "loss", .series = losses});
    std::vector<Series> metrics = metric_curves(history.validation);
    if (metrics.size() > kMostMetrics)
      notes_ += report_note(
          fmt::format("{} of {} metrics are drawn; metrics.jsonl has all.", kMostMetrics, metrics.size()));
    for (size_t i = 0; i < std::min(metrics.size(), kMostMetrics); ++i) {
      const std::string title = std::exchange(metrics[i].name, "");
      metrics[i].look = Series::Look::dots, metrics[i].color = 1;
      add({.title = title, .series = {std::move(metrics[i])}});
    }
    add({.title = "learning rate", .series = {{.name = "", .points = rates_}}});
    const auto norm = [](const MetricsRecord& record) { return record.grad_norm; };
    add({.title = "gradients' norm", .series = with_smoothed("", points_of(history.training, norm))});
  }

  void machine() {
    const auto speed = [](const MetricsRecord& record) { return record.samples_per_s; };
    add_small("throughput", "samples/s", speed);
    add_small("memory", "MiB", memory);
    add_small("wait for data", "% of a step", data_wait);
    add_small("utilisation", "%", number_of("device_utilization", 100));
    add_small("power", "W", number_of("device_power_w"));
    add_small("temperature", "°C", number_of("device_temperature_c"));
  }

  static std::vector<Series> with_smoothed(const std::string& name, Points points) {
    Points smooth = smoothed(points);
    if (smooth.empty()) return {{.name = name, .points = std::move(points)}};
    return {{.name = "", .points = std::move(points), .look = Series::Look::faint},
            {.name = name, .points = std::move(smooth)}};
  }

  void add_small(const std::string& title, const std::string& unit, const Getter& value) {
    Chart chart{.title = title, .unit = unit, .from_zero = true, .size = Chart::Size::small};
    chart.series = with_smoothed("", points_of(files_.history.training, value));
    add(std::move(chart));
  }

  void add(Chart chart) {
    size_t points = 0, finite = 0;
    for (const Series& each : chart.series) {
      points += each.points.size();
      for (const auto& point : each.points) finite += std::isfinite(point.second) ? 1 : 0;
    }
    chart.end = end_;
    chart.steps_per_epoch = per_epoch_;
    if (chart.size == Chart::Size::normal) chart.marks = marks_;
    charts_ += line_chart(chart);
    if (finite < points)
      notes_ += report_note(fmt::format("{}: {} of {} values are not finite and are not drawn.", chart.title,
                                        points - finite, points));
  }

  const RunFiles& files_;
  Points rates_;
  std::vector<Mark> marks_;
  double per_epoch_ = 0, end_ = 0;
  std::string charts_, notes_;
};

}  // namespace

Points points_of(const std::vector<MetricsRecord>& records, const Getter& value) {
  Points points;
  for (const MetricsRecord& record : records)
    if (const std::optional<double> found = value(record))
      points.emplace_back(static_cast<double>(record.step), *found);
  return points;
}

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

double steps_per_epoch(const RunHistory& history) {
  for (const std::vector<MetricsRecord>* records : {&history.validation, &history.training})
    if (!records->empty() && records->back().epoch > 0 && records->back().step > 0)
      return static_cast<double>(records->back().step) / records->back().epoch;
  return 0;
}

std::string curves_section(const ReportedRun& run, const RunFiles& files) {
  if (files.history.training.empty() && files.history.validation.empty()) return "";
  return "<h2>Curves</h2>\n" + Charts(run, files).html();
}

}  // namespace trainer
