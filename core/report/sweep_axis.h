// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/report/sweep_view.h"

namespace trainer {

/// An axis of a sweep's figures: of a parameter, or of the metric.
struct SweepAxis {
  struct Tick {
    double share = 0;
    std::string text;
  };
  std::string name, label;   ///< in full, and short
  double low = 0, high = 0;  ///< of numbers
  bool logarithmic = false, is_whole = false;
  std::vector<std::string> choices;  ///< at equal distances; empty: numbers
  size_t beyond = 0;                 ///< values that are drawn at an end, since they are beyond it

  /// From 0 to 1, the ends included.
  double share(double value) const;
  /// About `count` of them.
  std::vector<Tick> ticks(int count) const;
};

/// Its range, and values of trials outside.
std::vector<SweepAxis> parameter_axes(const SweepView& view);
/// The metric's values. Logarithmic if they differ much; the worst are beyond the axis if they are far from
/// most of the others. At least one trial must have a value.
SweepAxis metric_axis(const SweepView& view);

}  // namespace trainer
