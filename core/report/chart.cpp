// SPDX-License-Identifier: Apache-2.0
#include "core/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/report/html.h"

namespace trainer {
namespace {

constexpr double kWidth = 720, kHeight = 280, kLeft = 70, kRight = 12, kTop = 40, kBottom = 34;
constexpr size_t kMostPoints = 600;
constexpr int kTicks = 5;
// Distinguishable for people with red-green colour blindness, and in grey.
constexpr std::array<const char*, 6> kColors = {"#0060a8", "#c65102", "#2a7f3f",
                                                "#7a3fa0", "#8c6d00", "#555555"};
constexpr std::array<const char*, 6> kDashes = {"", "6 3", "2 2", "8 3 2 3", "1 3", "12 4"};

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
  double x_low, x_high, y_low, y_high;

  double x(double value) const { return kLeft + share(value, x_low, x_high) * (kWidth - kLeft - kRight); }
  double y(double value) const {
    return kHeight - kBottom - share(value, y_low, y_high) * (kHeight - kTop - kBottom);
  }

 private:
  /// By halves, since the difference of two numbers may be infinite.
  static double share(double value, double low, double high) {
    return (value / 2 - low / 2) / (high / 2 - low / 2);
  }
};

std::string grid(const Frame& frame, const std::vector<double>& x_ticks, const std::vector<double>& y_ticks) {
  std::string svg;
  for (const double tick : y_ticks) {
    const double y = frame.y(tick);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>\n",
        kLeft, y, kWidth - kRight, y, kLeft - 6, y + 4, tick);
  }
  for (const double tick : x_ticks) {
    if (tick < frame.x_low || tick > frame.x_high) continue;
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.6g}</text>\n",
                       frame.x(tick), kHeight - kBottom + 16, tick);
  }
  return svg + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">step</text>\n",
                           (kLeft + kWidth - kRight) / 2, kHeight - 4);
}

std::string curve(const Frame& frame, const std::vector<std::pair<double, double>>& points, size_t number) {
  const char* color = kColors[number % kColors.size()];
  if (points.size() == 1)
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n",
                       frame.x(points[0].first), frame.y(points[0].second), color);
  std::string svg = "<polyline points=\"";
  for (const auto& [x, y] : points) svg += fmt::format("{:.1f},{:.1f} ", frame.x(x), frame.y(y));
  return svg +
         fmt::format("\" stroke=\"{}\" stroke-dasharray=\"{}\"/>\n", color, kDashes[number % kDashes.size()]);
}

std::string legend(const std::vector<Series>& series) {
  std::string svg;
  double x = kLeft;
  for (size_t i = 0; i < series.size(); ++i) {
    svg += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"28\" x2=\"{:.1f}\" y2=\"28\" stroke=\"{}\" stroke-width=\"2\" "
        "stroke-dasharray=\"{}\"/>"
        "<text x=\"{:.1f}\" y=\"32\">{}</text>\n",
        x, x + 24, kColors[i % kColors.size()], kDashes[i % kDashes.size()], x + 30, escaped(series[i].name));
    x += 46 + 7.0 * static_cast<double>(series[i].name.size());
  }
  return svg;
}

}  // namespace

std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               size_t most) {
  std::vector<std::pair<double, double>> finite;
  for (const auto& point : points)
    if (std::isfinite(point.first) && std::isfinite(point.second)) finite.push_back(point);
  if (finite.size() <= most || most < 2) return finite;
  const size_t stretches = most / 2;
  std::vector<std::pair<double, double>> chosen;
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

std::string line_chart(const std::string& title, const std::string& unit, const std::vector<Series>& series) {
  Range x, y;
  std::vector<std::vector<std::pair<double, double>>> curves;
  for (const Series& each : series) {
    curves.push_back(thinned(each.points, kMostPoints));
    for (const auto& [step, value] : curves.back()) x.take(step), y.take(value);
  }
  if (y.is_empty()) return "";
  const std::vector<double> x_ticks = axis_ticks(x.low, x.high, 2 * kTicks),
                            y_ticks = axis_ticks(y.low, y.high, kTicks);
  const Range steps = shown(x.low, x.high);
  const Frame frame{steps.low, steps.high, y_ticks.front(), y_ticks.back()};
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n<text class=\"title\" "
      "x=\"{:.0f}\" y=\"14\">{}"
      "</text>\n",
      kWidth, kHeight, escaped(title), kLeft, escaped(unit.empty() ? title : title + ", " + unit));
  svg += grid(frame, x_ticks, y_ticks);
  for (size_t i = 0; i < curves.size(); ++i)
    if (!curves[i].empty()) svg += curve(frame, curves[i], i);
  return svg + (series.size() > 1 ? legend(series) : "") + "</svg>\n";
}

}  // namespace trainer
