// SPDX-License-Identifier: Apache-2.0
#include "core/report/sweep_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/report/html.h"
#include "core/report/readable.h"
#include "core/report/sections.h"
#include "core/report/sweep_axis.h"
#include "core/search/importance.h"
#include "core/sweep/trial_process.h"

namespace trainer {
namespace {

constexpr size_t kMostScatters = 12, kMostScattered = 1000;  // figures, and trials in each
constexpr size_t kMostNamedDots = 200;  // trials of a figure whose dots say which trial they are
constexpr size_t kMostTrialCurves = 24;

/// The metric over one parameter, of the size of a small chart.
class Scatter {
 public:
  Scatter(const SweepView& view, const SweepAxis& x, const SweepAxis& y, size_t parameter)
      : view_(view),
        x_(x),
        y_(y),
        parameter_(parameter),
        drawn_(std::min(view.with_metric(), kMostScattered)) {}

  std::string svg() const {
    std::string finished, dropped, best;
    for (size_t i = drawn_; i-- > 0;) {
      const ShownTrial& trial = view_.trials[i];
      if (!trial.values[parameter_]) continue;
      const bool is_best = i == 0 && view_.has_best();
      (is_best ? best : trial.is_finished ? finished : dropped) += dot(trial, is_best);
    }
    return fmt::format(
               "<svg viewBox=\"0 0 330 190\" role=\"img\" aria-label=\"{}\">\n<text class=\"title\" x=\"4\" "
               "y=\"16\">{}<title>{}</title></text>\n",
               escaped(y_.name + " over " + x_.name), escaped(shortened(x_.label, kMostTitle)),
               escaped(x_.name)) +
           grid() + "<g class=\"hollow\">\n" + dropped + "</g>\n" + finished + best + "</svg>\n";
  }

 private:
  static constexpr double kLeft = 52, kRight = 318, kTop = 32, kFoot = 162, kInset = 6;
  static constexpr size_t kMostTitle = 40;

  double x(double share) const { return kLeft + kInset + share * (kRight - kLeft - 2 * kInset); }
  double y(double share) const { return kFoot - kInset - share * (kFoot - kTop - 2 * kInset); }

  /// Dots of one choice stand beside each other: the golden ratio spreads their numbers evenly.
  double aside(int64_t number) const {
    constexpr double kGolden = 0.6180339887498949, kPart = 0.5;
    if (x_.choices.empty()) return 0;
    const double turn = kGolden * static_cast<double>(number);
    return kPart * (turn - std::floor(turn) - 0.5) / static_cast<double>(x_.choices.size());
  }

  std::string dot(const ShownTrial& trial, bool is_best) const {
    const double share = x_.share(*trial.values[parameter_]) + aside(trial.row.number);
    const char* look = is_best ? "class=\"c1\" " : trial.is_finished ? "class=\"c0\" " : "";
    std::string circle = fmt::format("<circle {}cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"", look, x(share),
                                     y(y_.share(*trial.metric)), is_best ? 5.0 : 2.6);
    if (drawn_ > kMostNamedDots && !is_best) return circle + "/>\n";
    return circle + fmt::format("><title>trial {}: {}</title></circle>\n", trial.row.number,
                                escaped(number_text(*trial.metric)));
  }

  std::string grid() const {
    std::string svg;
    for (const SweepAxis::Tick& tick : y_.ticks(4))
      svg += fmt::format(
          "<line class=\"grid\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"/><text x=\"{}\" y=\"{:.1f}\" "
          "text-anchor=\"end\">{}</text>",
          kLeft, y(tick.share), kRight, y(tick.share), kLeft - 5, y(tick.share) + 4, escaped(tick.text));
    const std::vector<SweepAxis::Tick> ticks = x_.ticks(5);
    const auto most = static_cast<size_t>((kRight - kLeft) / 6.5 / static_cast<double>(ticks.size() + 1));
    for (const SweepAxis::Tick& tick : ticks)
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", x(tick.share),
                         kFoot + 16, escaped(shortened(tick.text, std::max<size_t>(most, 6))));
    return svg + "\n";
  }

  const SweepView& view_;
  const SweepAxis &x_, &y_;
  size_t parameter_, drawn_;
};

std::string importance_bar(size_t place, const std::string& label, const std::string& name, double share) {
  constexpr double kHeight = 24, kBegin = 210, kLongest = 270;
  constexpr size_t kMostName = 30;
  const double top = kHeight * static_cast<double>(place) + 5;
  return fmt::format(
      "<text x=\"{}\" y=\"{:.0f}\" text-anchor=\"end\">{}<title>{}</title></text><rect class=\"c0\" x=\"{}\" "
      "y=\"{:.0f}\" width=\"{:.1f}\" height=\"14\"/><text x=\"{:.1f}\" y=\"{:.0f}\">{:.0f} %</text>\n",
      kBegin - 8, top + 11, escaped(shortened(label, kMostName)), escaped(name), kBegin, top,
      share * kLongest, kBegin + share * kLongest + 8, top + 11, 100 * share);
}

/// Values worse than all of finished trials would press the others into one line; they are counted.
size_t without_worst(const SweepView& view, std::vector<Series>& curves) {
  std::optional<double> worst;
  for (size_t i = 0; i < curves.size(); ++i)
    for (const auto& point : curves[i].points)
      if (view.trials[i].is_finished && std::isfinite(point.second) &&
          (!worst || view.plan.is_better(*worst, point.second)))
        worst = point.second;
  size_t removed = 0;
  for (Series& curve : curves)
    if (worst)
      removed += std::erase_if(curve.points,
                               [&](const auto& point) { return view.plan.is_better(*worst, point.second); });
  return removed;
}

std::string trial_legend(const SweepView& view, const std::vector<Series>& curves) {
  std::string html = "<p class=\"marks\">";
  for (size_t i = 0; i < curves.size(); ++i) {
    if (curves[i].points.empty()) continue;
    const ShownTrial& trial = view.trials[i];
    html += curve_sample(i) + fmt::format(" trial {}", trial.row.number);
    if (trial.metric) html += escaped(fmt::format(" ({})", number_text(*trial.metric)));
    html += " &#160; ";
  }
  return html + "</p>\n";
}

std::vector<Series> trial_curves(const SweepView& view) {
  std::vector<Series> curves;
  for (size_t i = 0; i < std::min(view.trials.size(), kMostTrialCurves); ++i) {
    const RunHistory history = read_history(run_of(view.plan, view.directory, view.trials[i].row.number, 0));
    const auto value = [&view](const MetricsRecord& record) { return number_in(record, view.plan.metric()); };
    curves.push_back({.name = "", .points = points_of(history.validation, value), .color = i});
  }
  return curves;
}

}  // namespace

std::string scatter_section(const SweepView& view) {
  if (view.with_metric() == 0) return "";
  const std::vector<SweepAxis> axes = parameter_axes(view);
  const SweepAxis metric = metric_axis(view);
  std::string figures;
  for (size_t i = 0; i < std::min(axes.size(), kMostScatters); ++i)
    figures += Scatter(view, axes[i], metric, i).svg();
  std::string html = fmt::format(
      "<h2>{} over each parameter</h2>\n<p class=\"marks\">Filled: finished trials. Hollow: dropped ones, "
      "with "
      "their value at the rung that dropped them. Large: the best.</p>\n<div class=\"charts "
      "small\">\n{}</div>\n",
      escaped(metric.name), figures);
  if (axes.size() > kMostScatters)
    html += report_note(fmt::format("{} of {} parameters are drawn.", kMostScatters, axes.size()));
  if (view.with_metric() > kMostScattered)
    html += report_note(
        fmt::format("The best {} of {} trials with a value are drawn.", kMostScattered, view.with_metric()));
  return html;
}

std::string importance_section(const SweepView& view) {
  std::vector<Observation> seen;
  for (const ShownTrial& trial : view.trials) {
    if (!trial.is_finished) continue;
    // A recipe as written need not be in the space.
    if (std::optional<Setting> setting = view.plan.values_of(trial.row.texts))
      seen.push_back(
          {.setting = *std::move(setting), .state = Observation::State::finished, .value = *trial.metric});
  }
  const std::vector<double> shares = importances(view.plan.space(), seen, view.plan.maximizes());
  const std::string title = "<h2>Importance of parameters</h2>\n";
  if (shares.empty())
    return title +
           report_note("Fewer than two finished trials in the ranges of the parameters: no importance.");
  std::vector<size_t> order(shares.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return shares[i]; });
  const std::vector<std::string> labels = parameter_labels(view.plan);
  std::string bars;
  for (size_t i = 0; i < order.size(); ++i)
    bars += importance_bar(i, labels[order[i]], view.plan.space()[order[i]].name, shares[order[i]]);
  return title +
         fmt::format(
             "<p class=\"marks\">How much each parameter decides whether a setting is among the best tenth "
             "(PED-ANOVA, of the finished trials).</p>\n<svg style=\"max-width: 560px\" viewBox=\"0 0 560 "
             "{}\" "
             "role=\"img\" aria-label=\"importance of parameters\">\n{}</svg>\n",
             24 * order.size() + 6, bars);
}

std::string trial_curves_section(const SweepView& view) {
  if (view.trials.empty()) return "";
  std::vector<Series> curves = trial_curves(view);
  const size_t removed = without_worst(view, curves);
  const std::string chart = line_chart({.title = view.plan.metric(), .series = curves});
  if (chart.empty()) return report_note("No trial has records of the metric yet: no curves.");
  std::string html = "<h2>Curves</h2>\n" + trial_legend(view, curves);
  if (view.trials.size() > curves.size())
    html +=
        report_note(fmt::format("The best {} of {} trials are drawn.", curves.size(), view.trials.size()));
  if (removed > 0)
    html +=
        report_note(fmt::format("{} values are worse than all of finished trials and not drawn.", removed));
  if (view.plan.repeats().size() > 1) html += report_note("Of each trial the first training is drawn.");
  return html + "<div style=\"max-width: 42em\">\n" + chart + "</div>\n";
}

}  // namespace trainer
