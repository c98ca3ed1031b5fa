// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/report/html.h"
#include "core/report/sections.h"
#include "core/report/sweep_axis.h"
#include "core/report/sweep_figures.h"

// Parallel coordinates: Inselberg, "The plane with parallel coordinates", The Visual Computer 1, 1985.

namespace trainer {
namespace {

constexpr size_t kMostLines = 300;
constexpr size_t kMostLabel = 26, kMostTick = 14;  // bytes of texts
constexpr double kLeftEdge = 20, kRightEdge = 95, kUpper = 50, kLower = 300, kWithout = 328, kAllHeight = 345;

class AcrossFigure {
 public:
  explicit AcrossFigure(const SweepView& view)
      : view_(view), axes_(parameter_axes(view)), drawn_(std::min(view.with_metric(), kMostLines)) {
    axes_.push_back(metric_axis(view));
    while (finished_ < drawn_ && view.trials[finished_].is_finished) ++finished_;
    width_ = std::max(1120.0, 105.0 * static_cast<double>(axes_.size()));
  }

  std::string html() const {
    const std::string title =
        fmt::format("{} of {} trials over their parameters", view_.plan.metric(), drawn_);
    std::string svg = fmt::format(
        "<svg class=\"across\" style=\"min-width: {}px\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
        "aria-label=\"{}\">\n",
        72 * axes_.size(), width_, kAllHeight, escaped(title));
    // The best ones lie above the others.
    for (size_t i = drawn_; i-- > 0;) svg += line(i);
    for (size_t i = 0; i < axes_.size(); ++i) svg += axis(i);
    return "<div class=\"wide\">" + svg + "</svg></div>\n";
  }

  size_t drawn() const { return drawn_; }
  size_t beyond() const { return axes_.back().beyond; }

 private:
  double x(size_t axis) const {
    return kLeftEdge + static_cast<double>(axis) * (width_ - kLeftEdge - kRightEdge) /
                           static_cast<double>(axes_.size() - 1);
  }
  double y(double share) const { return kLower - share * (kLower - kUpper); }

  /// Its look: the best thick, finished ones stronger the better they are, dropped ones faint.
  std::string look(size_t trial) const {
    constexpr double kPalest = 0.3, kFall = 2;  // the best of many stand out
    if (trial == 0 && view_.has_best()) return "class=\"c1\" style=\"stroke-width: 4px\"";
    if (!view_.trials[trial].is_finished) return "class=\"c7 faint\"";
    const double rank = 1 - static_cast<double>(trial) / static_cast<double>(finished_);
    return fmt::format("class=\"c0\" opacity=\"{:.2f}\"", kPalest + (1 - kPalest) * std::pow(rank, kFall));
  }

  std::string line(size_t i) const {
    const ShownTrial& trial = view_.trials[i];
    std::string points;
    for (size_t j = 0; j < axes_.size(); ++j) {
      const std::optional<double> value = j < trial.values.size() ? trial.values[j] : trial.metric;
      points += fmt::format("{:.1f},{:.1f} ", x(j), value ? y(axes_[j].share(*value)) : kWithout);
    }
    const std::string value =
        value_text(view_.plan, *trial.metric, trial.is_finished ? trial.row.state.spread : 0);
    return fmt::format("<polyline {} points=\"{}\"><title>trial {}, {}: {}</title></polyline>\n", look(i),
                       points, trial.row.number, escaped(trial.row.what), escaped(value));
  }

  /// Whether a drawn trial does not have the parameter.
  bool is_absent(size_t axis) const {
    return std::any_of(
        view_.trials.begin(), view_.trials.begin() + static_cast<int64_t>(drawn_),
        [axis](const ShownTrial& trial) { return axis < trial.values.size() && !trial.values[axis]; });
  }

  std::string axis(size_t i) const {
    const SweepAxis& axis = axes_[i];
    std::string svg = fmt::format(
        "<line class=\"tick\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>"
        "<text class=\"title\" x=\"{3:.1f}\" y=\"{4}\" text-anchor=\"{5}\">{6}<title>{7}</title></text>\n",
        x(i), kUpper, kLower, i == 0 ? 4 : x(i), i % 2 == 0 ? 16 : 36, i == 0 ? "start" : "middle",
        escaped(shortened(axis.label, kMostLabel)), escaped(axis.name));
    for (const SweepAxis::Tick& tick : axis.ticks(6))
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", x(i) + 4, y(tick.share) + 4,
                         escaped(shortened(tick.text, kMostTick)));
    if (is_absent(i))
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">none</text>", x(i) + 4, kWithout + 4);
    return svg + "\n";
  }

  const SweepView& view_;
  std::vector<SweepAxis> axes_;  ///< of the parameters, then of the metric
  size_t drawn_, finished_ = 0;  ///< of the trials, and of these
  double width_ = 0;
};

}  // namespace

std::string across_section(const SweepView& view) {
  const size_t count = view.with_metric();
  if (count == 0) return "";
  const AcrossFigure figure(view);
  std::string html = "<h2>Trials across their parameters</h2>\n" + figure.html();
  html +=
      "<p class=\"marks\">A line is a trial. Orange: the best. Blue: finished ones, stronger the better. "
      "Grey: dropped ones, with their value at the rung that dropped them.</p>\n";
  if (figure.beyond() > 0)
    html += report_note(fmt::format("Beyond the axis of {} and drawn at its end: {} of {} values.",
                                    view.plan.metric(), figure.beyond(), count));
  if (figure.drawn() < count)
    html += report_note(fmt::format("The best {} of {} trials with a value are drawn; {} are left out.",
                                    figure.drawn(), count, count - figure.drawn()));
  return html;
}

}  // namespace trainer
