// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/data/source.h"

namespace trainer {

/// How much of a data set validation should have.
struct ValidationShare {
  double fraction = 0;  ///< of each class
  double samples = 0;   ///< of all
};

/// Whether each sample is set aside for validation: iterative stratification (Sechidis et al. 2011, "On the
/// stratification of multi-label data") into two sides. The class with the fewest samples left is next; each
/// of its samples goes to the side that wants at least one more of it, or else to the side that has less of
/// its share of all samples: here the sides are not equal, as in the paper. Samples come in a random order by
/// `order`. Validation gets at least one, and training keeps one of each class; throws Error (exit
/// 65) if that is impossible.
std::vector<bool> iterative_stratification(const SampleLabelSets& sets, const ValidationShare& share,
                                           uint64_t order);

}  // namespace trainer
