// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trainer {

/// A curve over the steps of a run.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< (step, value), in order; a value may be NaN or infinite
};

/// The same curve with at most about `most` points: of each stretch the lowest and the highest. Non-finite
/// values are left out.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               size_t most);

/// Round numbers from at most `low` to at least `high`, about `count` of them.
std::vector<double> axis_ticks(double low, double high, int count);

/// Line charts of all series in one image, as an SVG element with a legend; `unit` labels the vertical axis.
/// Empty if no value is finite.
std::string line_chart(const std::string& title, const std::string& unit, const std::vector<Series>& series);

}  // namespace trainer
