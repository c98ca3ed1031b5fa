// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace trainer {

/// (step, value), in order; a value may be NaN or infinite.
using Points = std::vector<std::pair<double, double>>;

/// A curve over the steps of a run.
struct Series {
  enum class Look {
    line,
    faint,  ///< a thin, pale line: the values that another curve smooths
    dots,   ///< a line with a dot at each point
  };
  std::string name;  ///< of the legend; curves without a name are not in it
  Points points;
  Look look = Look::line;
  size_t color = 0;  ///< number of one of kCurveColors, and of its dashes
};
constexpr size_t kCurveColors = 8;

/// A vertical line at a step.
struct Mark {
  enum class Kind { best, resume, stop, drop };
  Kind kind;
  double step;
  std::string name;  ///< shown where the pointer rests on it
};

struct Chart {
  enum class Size { normal, small };
  std::string title, unit;
  std::vector<Series> series;
  double end = 0;              ///< the axis goes from 0 to this step, or to the last one of the curves
  double steps_per_epoch = 0;  ///< epochs stand above the chart, unless it is 0
  std::vector<Mark> marks;
  bool from_zero = false;  ///< whether the vertical axis begins at 0
  Size size = Size::normal;
  std::string axis = "step";
};

/// The same curve with at most about `most` points: of each stretch the lowest and the highest. Non-finite
/// values are left out.
Points thinned(const Points& points, size_t most);

/// The mean of each finite point and its neighbours, a fiftieth of the curve in all. Empty for a curve that
/// is too short to be smoothed.
Points smoothed(const Points& points);

/// Round numbers from at most `low` to at least `high`, about `count` of them.
std::vector<double> axis_ticks(double low, double high, int count);

/// All series in one image, as an SVG element with a legend. Empty if no value is finite.
std::string line_chart(const Chart& chart);

/// The short line that stands for a curve's colour, for a legend outside of a chart.
std::string curve_sample(size_t color);

}  // namespace trainer
