// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include "tests/catch.h"

#include "core/report/chart.h"
#include "core/report/html.h"
#include "core/report/readable.h"
#include "core/report/terminal_chart.h"

namespace trainer {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

std::string chart_of(const Points& points) {
  return line_chart({.title = "loss", .series = {{.name = "", .points = points}}});
}

}  // namespace

TEST_CASE("text in HTML begins no tag, ends no attribute and holds no control character") {
  CHECK(escaped("a<b>&\"c'd") == "a&lt;b&gt;&amp;&quot;c&#39;d");
  CHECK(escaped("tab\tline\nü") == "tab\tline\nü");
  CHECK(escaped(std::string("\x1b[2J\0\x7f", 6)) == "\xEF\xBF\xBD[2J\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(escaped("\xFF<") == "\xEF\xBF\xBD&lt;");
}

TEST_CASE("a table has a cell for each text, numbers at the right") {
  CHECK(html_table({"a", "<"}, {{"1.5e-3", "x"}}) ==
        "<table><thead><tr><th class=\"n\">a</th><th>&lt;</th></tr></thead><tbody>\n"
        "<tr><td class=\"n\">1.5e-3</td><td>x</td></tr>\n</tbody></table>\n");
}

TEST_CASE("a thinned curve keeps its ends, its extremes and its order, and nothing that is not finite") {
  Points points;
  for (int i = 0; i < 10000; ++i) points.emplace_back(i, std::sin(i * 0.01));
  points[1234].second = 7;
  points[4321].second = -9;
  points[5000].second = kNan;
  points[6000].second = std::numeric_limits<double>::infinity();
  const Points few = thinned(points, 100);
  CHECK(few.size() <= 100);
  CHECK(few.size() > 50);
  CHECK(std::ranges::is_sorted(few, {}, &Points::value_type::first));
  CHECK(std::ranges::count(few, Points::value_type(1234, 7)) == 1);
  CHECK(std::ranges::count(few, Points::value_type(4321, -9)) == 1);
  CHECK(std::ranges::all_of(few, [](const auto& point) { return std::isfinite(point.second); }));
  CHECK(thinned({{1, kNan}, {2, 3}}, 100) == Points{{2, 3}});
}

TEST_CASE("ticks are round, enclose the range and are about as many as asked for") {
  CHECK(axis_ticks(0, 1, 5) == std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1});
  CHECK(axis_ticks(0.31, 0.47, 4).front() == Approx(0.3));
  CHECK(axis_ticks(0.31, 0.47, 4).back() == Approx(0.5));
  constexpr double kLargest = std::numeric_limits<double>::max(), kSmallest = 5e-324;
  for (const auto& [low, high] : Points{{1, 1},
                                        {0, 0},
                                        {-3, 1e9},
                                        {1e-300, 2e-300},
                                        {-5, -5},
                                        {1, std::nextafter(1, 2)},
                                        {-1e300, std::nextafter(-1e300, 0)},
                                        {0, kSmallest},
                                        {kSmallest, kSmallest},
                                        {-kLargest, kLargest},
                                        {kLargest, kLargest},
                                        {-kLargest, -kLargest},
                                        {std::nextafter(kLargest, 0), kLargest}}) {
    const std::vector<double> ticks = axis_ticks(low, high, 5);
    INFO(low << " to " << high);
    CHECK(ticks.size() >= 2);
    CHECK(ticks.size() <= 9);
    CHECK(std::ranges::all_of(ticks, [](double tick) { return std::isfinite(tick); }));
    CHECK(ticks.front() <= low);
    CHECK(ticks.back() >= high);
  }
}

TEST_CASE("a table highlights its best row") {
  const std::string html = html_table({"a"}, {{"1"}, {"2"}}, 1);
  CHECK(count(html, "<tr class=\"best\"><td class=\"n\">2</td></tr>") == 1);
  CHECK(count(html, "best") == 1);
}

TEST_CASE("figures have the digits that a reader needs") {
  CHECK(share_text(0.90349) == "90.3 %");
  CHECK(share_text(0.99957) == "99.96 %");
  CHECK(share_text(1) == "100 %");
  CHECK(rounded_text(16234.5) == "16,200");
  CHECK(rounded_text(1234567) == "1,230,000");
  CHECK(rounded_text(-99960) == "-100,000");
  CHECK(rounded_text(38.84) == "38.8");
  CHECK(rounded_text(kNan) == "NaN");
  CHECK(rounded_text(1e300) == "1e+300");
  CHECK(tick_text(20000) == "20k");
  CHECK(tick_text(1500000) == "1.5M");
  CHECK(tick_text(0.25) == "0.25");
  CHECK(metric_text(0.5, true) == "50.0 %");
  CHECK(metric_text(0.5, false) == "0.5");
  CHECK(metric_text(12.5, true) == "12.5");
}

TEST_CASE("a smoothed curve stays where a straight one is, and hides the noise of another") {
  Points line, noise;
  for (int i = 0; i < 1000; ++i) {
    line.emplace_back(i, 3.0 * i);
    noise.emplace_back(i, i % 2 == 0 ? 1 : -1);
  }
  noise[500].second = kNan;
  const Points same = smoothed(line), flat = smoothed(noise);
  REQUIRE(same.size() == 1000);
  for (size_t i = 0; i < same.size(); ++i) CHECK(same[i].second == Approx(line[i].second));
  CHECK(flat.size() == 999);
  for (size_t i = 10; i + 10 < flat.size(); ++i) CHECK(std::fabs(flat[i].second) < 0.2);
  CHECK(smoothed({{1, 2}, {2, 3}}).empty());
  CHECK(smoothed({}).empty());
}

TEST_CASE("a chart draws each series, and names it without a tag of its own") {
  const Points training = {{1, 2}, {2, 1}, {3, kNan}}, two = {{2, 1.5}, {3, 1.5}};
  const std::string svg = line_chart({.title = "loss",
                                      .series = {{.name = "<training>", .points = training},
                                                 {.name = "once", .points = {{3, 1.5}}, .color = 1},
                                                 {"validation", two, Series::Look::dots, 2}}});
  CHECK(count(svg, "<polyline ") == 2);
  CHECK(count(svg, "<circle ") == 3);
  CHECK(count(svg, "&lt;training&gt;") == 1);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(chart_of({{1, kNan}}) == "");
  CHECK(line_chart({}) == "");
}

TEST_CASE("charts share an axis of steps from 0, with epochs above and lines at what happened") {
  const std::string svg = line_chart(
      {.title = "loss",
       .series = {{.name = "", .points = {{500, 1}, {1000, 2}}}},
       .end = 2000,
       .steps_per_epoch = 500,
       .marks = {{Mark::Kind::best, 1000, "best <top1>"}, {Mark::Kind::resume, 5000, "beyond the axis"}}});
  CHECK(svg.find("points=\"178.5,264.0 299.0,50.0 \"") != std::string::npos);
  CHECK(svg.find("text-anchor=\"middle\">0</text>") != std::string::npos);
  CHECK(svg.find("text-anchor=\"middle\">2000</text>") != std::string::npos);
  CHECK(count(svg, "class=\"tick\"") == 4);
  CHECK(count(svg, "<line class=\"mark best\" x1=\"299.0\"") == 1);
  CHECK(count(svg, "<title>best &lt;top1&gt;</title>") == 1);
  CHECK(svg.find("beyond") == std::string::npos);
}

TEST_CASE("a chart from zero has a tick there") {
  Chart chart{.title = "speed", .series = {{.name = "", .points = {{1, 900}, {2, 1000}}}}};
  chart.from_zero = true, chart.size = Chart::Size::small;
  CHECK(line_chart(chart).find("text-anchor=\"end\">0</text>") != std::string::npos);
}

TEST_CASE("numbers at the ends of what a double holds have their place in a chart") {
  constexpr double kLargest = std::numeric_limits<double>::max();
  for (const Points& points : {Points{{1, 1}, {2, std::nextafter(1, 2)}}, Points{{1, 0}, {2, 5e-324}},
                               Points{{1, -kLargest}, {2, 0}, {3, kLargest}}, Points{{9e18, 1}, {9e18, 2}}}) {
    const std::string svg = chart_of(points);
    CHECK(svg.size() < 10'000);
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find("inf") == std::string::npos);
  }
  const std::string svg = chart_of({{0, -kLargest}, {5, 0}, {10, kLargest}});
  const size_t middle = svg.find("299.0,");
  REQUIRE(middle != std::string::npos);
  CHECK(svg.substr(middle, 11) == "299.0,157.0");
  const auto dots_of = [](double size) {
    const std::vector<std::string> lines = terminal_chart("", {{0, -size}, {1, 0}, {2, size}}, 14, 1);
    REQUIRE(lines.size() == 3);
    return lines[1].substr(11);
  };
  CHECK(dots_of(kLargest) == dots_of(1));
}

TEST_CASE("a higher value stands higher in a chart") {
  const std::string svg = chart_of({{0, 0}, {10, 1}});
  CHECK(svg.find("points=\"58.0,264.0 540.0,50.0 \"") != std::string::npos);
}

TEST_CASE("a chart of the terminal has its size, its extremes and a dot for each column") {
  const std::vector<std::string> lines =
      terminal_chart("loss", {{0, 4}, {20, 1}, {30, kNan}, {40, 2}}, 40, 4);
  REQUIRE(lines.size() == 6);
  CHECK(lines[0] == "loss");
  CHECK(lines[1].starts_with("         4 "));
  CHECK(lines[4].starts_with("         1 "));
  CHECK(lines[5] == "           step 0                     40");
  for (size_t i = 1; i <= 4; ++i) CHECK(lines[i].size() == 11 + 3 * 29);
  // The first column has a dot at the top, the last one none there.
  CHECK(lines[1].substr(11, 3) != "\u2800");
  CHECK(lines[1].substr(lines[1].size() - 3) == "\u2800");
  const std::vector<std::string> marked =
      terminal_chart("loss", {{0, 1}, {9, 1}}, 21, 2, {{0, 3}, {9, kNan}, {9, 1}});
  REQUIRE(marked.size() == 4);
  CHECK(marked[1].starts_with("         3 o"));
  CHECK(marked[2].ends_with("o"));
  CHECK(count(marked[1] + marked[2], "o") == 2);
  CHECK(terminal_chart("x", {{1, kNan}}, 40, 4).empty());
  CHECK(terminal_chart("x", {{1, 1}}, 5, 4).empty());
  CHECK(terminal_chart("back", {{30, 1}, {10, 2}, {30, 3}}, 40, 3).size() == 5);
}

}  // namespace trainer
