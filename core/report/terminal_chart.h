// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/report/chart.h"

namespace trainer {

/// A curve in `height` lines of text, `width` columns wide, drawn with Braille dots; points of `marked` stand
/// over it as `o`. At its left the largest and the smallest value, under it the axis from 0, named `axis`.
/// Values that are not finite are left out; empty without any other.
std::vector<std::string> terminal_chart(const std::string& title, const Points& points, size_t width,
                                        size_t height, const Points& marked = {},
                                        const std::string& axis = "step");

}  // namespace trainer
