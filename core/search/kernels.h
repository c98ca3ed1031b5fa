// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/rng.h"
#include "core/search/space.h"

namespace trainer {

/// The factors of a Parzen mixture in one dimension: a kernel around each observed value, in their order, and
/// the prior as the last. A range has normal distributions cut at its bounds, of the logarithm if it is
/// logarithmic; an integer has the mass that rounds to it; a choice has smoothed frequencies.
class Kernels {
 public:
  Kernels(const Dimension& dimension, const std::vector<double>& observed);

  /// Adds the logarithm of each kernel's density at a value to `sums`. Logarithmic reals have the density of
  /// their logarithm.
  void add_log_densities(double value, std::span<double> sums) const;
  double draw(size_t kernel, RandomStream& stream) const;

 private:
  void add_real(double x, std::span<double> sums) const;
  void add_integer(double value, std::span<double> sums) const;
  void add_choice(double value, std::span<double> sums) const;

  Dimension::Kind kind_;
  bool logarithmic_;
  double lowest_, highest_;  ///< bounds of the values
  double low_, high_;        ///< of the normal distributions, an integer's half a step wider
  std::vector<double> mean_, deviation_, offset_;  ///< offset_: what does not depend on the value
  std::vector<size_t> rising_;                     ///< the kernels in the order of their means
  std::vector<double> chosen_;                     ///< choices: the observed ones
  double log_hit_ = 0, log_miss_ = 0;  ///< probability of a kernel's own choice, and of each other one
  double choices_ = 0;
};

}  // namespace trainer
