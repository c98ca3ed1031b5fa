// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trainer {

/// A curve in `height` lines of text, `width` columns wide, drawn with Braille dots; at its left the largest
/// and the smallest value, under it the first and the last step. Values that are not finite are left out;
/// empty without any other.
std::vector<std::string> terminal_chart(const std::string& title,
                                        const std::vector<std::pair<double, double>>& points, size_t width,
                                        size_t height);

}  // namespace trainer
