// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/search/space.h"

namespace trainer {

/// A Parzen estimate of the density of one dimension's values, of which there is at least one: the share of
/// each choice or whole number, or of each of at most 50 equal parts of the range or its logarithm. The sum
/// is 1, no share is 0. Needs a dimension with several values.
std::vector<double> density_of_values(const Dimension& dimension, const std::vector<double>& values);

}  // namespace trainer
