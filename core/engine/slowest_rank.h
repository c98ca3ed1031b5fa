// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace trainer {

/// The standard deviation of a step's time on one rank as a share of its mean, where no run has measured it:
/// fitted to published runs by scripts/scaling.py.
constexpr double kStepSpread = 0.029;

/// The expected largest of `ranks` draws from a standard normal distribution.
double expected_largest_normal(int64_t ranks);

/// The expected largest of `ranks` draws with replacement. There must be a number to draw.
double expected_largest(std::span<const double> numbers, int64_t ranks);

}  // namespace trainer
