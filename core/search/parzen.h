// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/base/rng.h"
#include "core/search/kernels.h"
#include "core/search/space.h"

namespace trainer {

/// A distribution over several dimensions together: a mixture of one product of kernels for each observed
/// setting and one for the prior. The weights of all but the last 25 settings rise with their place.
class Parzen {
 public:
  /// Each of `observed`, the earliest first, has a value of each of these dimensions.
  Parzen(const Space& space, std::vector<size_t> dimensions, const std::vector<const Setting*>& observed);

  /// Of the values of the dimensions, which are within their bounds.
  double log_density(const Setting& setting) const;
  /// Sets the values of the dimensions.
  void draw(RandomStream& stream, Setting& setting) const;

 private:
  std::vector<size_t> dimensions_;
  std::vector<Kernels> kernels_;             ///< of each dimension
  std::vector<double> log_weights_, up_to_;  ///< of the products; up_to_: running sums of the weights
};

}  // namespace trainer
