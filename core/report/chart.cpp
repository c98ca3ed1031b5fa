// SPDX-License-Identifier: Apache-2.0
#include "core/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/report/html.h"
#include "core/report/readable.h"

namespace trainer {
namespace {

constexpr size_t kMostPoints = 400;
constexpr size_t kMostDots = 150;  // of full size
constexpr std::array<const char*, kCurveColors> kDashes = {"",        "7 3",  "2 2",     "9 3 2 3",
                                                           "5 2 1 2", "12 4", "3 3 8 3", "1 4"};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();

  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return low > high; }
};

/// The range that an axis shows. If numbers of 53 bits differ by less, there are no ticks between them.
Range shown(double low, double high) {
  constexpr double kLeastShare = 1e-9, kLeast = 1e-300;
  const double size = std::max(std::fabs(low), std::fabs(high));
  if (high / 2 - low / 2 >= std::max(kLeastShare * size, kLeast)) return {low, high};
  const double room = std::max(1e-12, size * 0.1);
  return std::isfinite(low + room) ? Range{low, low + room} : Range{high - room, high};
}

/// Positions of numbers in the image.
struct Frame {
  double width, height, left, right, top, bottom;
  Range steps = {}, values = {};

  double x(double value) const { return left + share(value, steps) * (width - left - right); }
  double y(double value) const { return height - bottom - share(value, values) * (height - top - bottom); }

 private:
  /// By halves, since the difference of two numbers may be infinite.
  static double share(double value, const Range& range) {
    return (value / 2 - range.low / 2) / (range.high / 2 - range.low / 2);
  }
};

Frame frame_of(Chart::Size size) {
  if (size == Chart::Size::small)
    return {.width = 330, .height = 190, .left = 48, .right = 18, .top = 30, .bottom = 34};
  return {.width = 560, .height = 300, .left = 58, .right = 20, .top = 50, .bottom = 36};
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

std::string grid(const Frame& frame, const Chart& chart, const std::vector<double>& y_ticks) {
  std::string svg;
  const double foot = frame.height - frame.bottom;
  for (const double tick : y_ticks) {
    const double y = frame.y(tick);
    svg += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>",
                       frame.left, y, frame.width - frame.right, y) +
           text_at(frame.left - 6, y + 4, "end", tick_text(tick));
  }
  const int count = chart.size == Chart::Size::small ? 4 : 8;
  for (const double tick : axis_ticks(frame.steps.low, frame.steps.high, count))
    if (tick >= frame.steps.low && tick <= frame.steps.high)
      svg += text_at(frame.x(tick), foot + 15, "middle", tick_text(tick));
  return svg + text_at((frame.left + frame.width - frame.right) / 2, foot + 30, "middle", chart.axis);
}

/// Whole epochs above the chart, at most about six.
std::string epochs(const Frame& frame, double steps_per_epoch) {
  const double last = frame.steps.high / steps_per_epoch;
  if (!std::isfinite(last) || last < 1) return "";
  std::string svg = text_at(frame.left, frame.top - 10, "start", "epoch");
  for (const double tick : axis_ticks(0, last, 6)) {
    if (tick == 0 || tick > last * (1 + 1e-9) || tick != std::floor(tick)) continue;
    const double x = frame.x(tick * steps_per_epoch);
    svg += fmt::format("<line class=\"tick\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>",
                       x, frame.top - 6, frame.top) +
           text_at(x, frame.top - 10, "middle", tick_text(tick));
  }
  return svg;
}

std::string marks(const Frame& frame, const std::vector<Mark>& all) {
  constexpr std::array<const char*, 4> kClasses = {"best", "resume", "stop", "drop"};
  std::string svg;
  for (const Mark& mark : all) {
    if (!(mark.step >= frame.steps.low && mark.step <= frame.steps.high)) continue;
    svg += fmt::format(
        "<line class=\"mark {}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"><title>{}</title></"
        "line>\n",
        kClasses[static_cast<size_t>(mark.kind)], frame.x(mark.step), frame.top, frame.x(mark.step),
        frame.height - frame.bottom, escaped(mark.name));
  }
  return svg;
}

std::string curve(const Frame& frame, const Points& points, const Series& series) {
  const size_t color = series.color % kCurveColors;
  std::string svg;
  if (points.size() > 1) {
    svg = fmt::format("<polyline class=\"c{}{}\" stroke-dasharray=\"{}\" points=\"", color,
                      series.look == Series::Look::faint ? " faint" : "",
                      series.look == Series::Look::faint ? "" : kDashes[color]);
    for (const auto& [x, y] : points) svg += fmt::format("{:.1f},{:.1f} ", frame.x(x), frame.y(y));
    svg += "\"/>\n";
  }
  if (points.size() > 1 && series.look != Series::Look::dots) return svg;
  const double radius = points.size() > kMostDots ? 1.2 : 2.6;
  for (const auto& [x, y] : points)
    svg += fmt::format("<circle class=\"c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"/>", color, frame.x(x),
                       frame.y(y), radius);
  return svg + "\n";
}

/// From the right edge of the title's line to the left.
std::string legend(const Frame& frame, const std::vector<Series>& all) {
  std::string svg;
  double x = frame.width - frame.right;
  for (size_t i = all.size(); i-- > 0;) {
    if (all[i].name.empty() || all[i].points.empty()) continue;
    x -= 7.0 * static_cast<double>(all[i].name.size());
    const size_t color = all[i].color % kCurveColors;
    svg +=
        fmt::format(
            "<line class=\"c{}\" x1=\"{:.1f}\" y1=\"12\" x2=\"{:.1f}\" y2=\"12\" stroke-dasharray=\"{}\"/>",
            color, x - 28, x - 6, kDashes[color]) +
        text_at(x, 16, "start", all[i].name);
    x -= 42;
  }
  return svg;
}

}  // namespace

Points thinned(const Points& points, size_t most) {
  Points finite;
  for (const auto& point : points)
    if (std::isfinite(point.first) && std::isfinite(point.second)) finite.push_back(point);
  if (finite.size() <= most || most < 2) return finite;
  const size_t stretches = most / 2;
  Points chosen;
  for (size_t i = 0; i < stretches; ++i) {
    const auto begin = finite.begin() + static_cast<int64_t>(i * finite.size() / stretches);
    const auto end = finite.begin() + static_cast<int64_t>((i + 1) * finite.size() / stretches);
    const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
    auto [low, high] = std::minmax_element(begin, end, less);
    if (high < low) std::swap(low, high);
    chosen.push_back(*low);
    if (low != high) chosen.push_back(*high);
  }
  return chosen;
}

Points smoothed(const Points& points) {
  constexpr size_t kFewest = 30, kParts = 50;
  Points finite;
  for (const auto& point : points)
    if (std::isfinite(point.first) && std::isfinite(point.second)) finite.push_back(point);
  if (finite.size() < kFewest) return {};
  const size_t reach = std::max<size_t>(1, finite.size() / kParts / 2), count = finite.size();
  Points means;
  for (size_t i = 0; i < count; ++i) {
    // Fewer neighbours at the ends, equally many on both sides: a falling curve stays where it is.
    const size_t near = std::min({reach, i, count - 1 - i});
    double mean = 0;
    for (size_t j = i - near; j <= i + near; ++j)
      mean += finite[j].second / static_cast<double>(2 * near + 1);
    means.emplace_back(finite[i].first, mean);
  }
  return means;
}

std::vector<double> axis_ticks(double low, double high, int count) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  const Range range = shown(low, high);
  low = range.low, high = range.high;
  const double parts = std::max(1, count), rough = high / parts - low / parts;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double factor = rough / power;
  const double step = power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
  std::vector<double> ticks;
  for (double i = std::floor(low / step + 1e-9); i <= std::ceil(high / step - 1e-9); ++i)
    ticks.push_back(std::clamp(i * step, -kLargest, kLargest));
  if (ticks.size() < 2) ticks.push_back(ticks.back() + step);
  return ticks;
}

std::string line_chart(const Chart& chart) {
  Range x{.low = 0, .high = chart.end}, y;
  std::vector<Points> curves;
  for (const Series& each : chart.series) {
    curves.push_back(thinned(each.points, kMostPoints));
    for (const auto& [step, value] : curves.back()) x.take(step), y.take(value);
  }
  if (y.is_empty()) return "";
  if (chart.from_zero) y.take(0);
  const std::vector<double> ticks = axis_ticks(y.low, y.high, chart.size == Chart::Size::small ? 3 : 5);
  Frame frame = frame_of(chart.size);
  frame.steps = shown(x.low, x.high);
  frame.values = {ticks.front(), ticks.back()};
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n<text class=\"title\" x=\"4\" "
      "y=\"16\">{}</text>\n",
      frame.width, frame.height, escaped(chart.title),
      escaped(chart.unit.empty() ? chart.title : chart.title + ", " + chart.unit));
  svg += grid(frame, chart, ticks);
  if (chart.steps_per_epoch > 0 && chart.size == Chart::Size::normal)
    svg += epochs(frame, chart.steps_per_epoch);
  svg += marks(frame, chart.marks);
  for (size_t i = 0; i < curves.size(); ++i)
    if (!curves[i].empty()) svg += curve(frame, curves[i], chart.series[i]);
  return svg + legend(frame, chart.series) + "</svg>\n";
}

std::string curve_sample(size_t color) {
  color %= kCurveColors;
  return fmt::format(
      "<svg class=\"sample\" viewBox=\"0 0 28 10\"><line class=\"c{}\" x1=\"0\" y1=\"5\" x2=\"28\" y2=\"5\" "
      "stroke-dasharray=\"{}\"/></svg>",
      color, kDashes[color]);
}

}  // namespace trainer
