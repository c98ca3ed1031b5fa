// SPDX-License-Identifier: Apache-2.0
#include "core/pruning/settings.h"

#include <cmath>

namespace trainer {

bool PruningSettings::is_due(int64_t step) const {
  return step == end || (step > begin && step < end && (step - begin) % every == 0);
}

double PruningSettings::share_after(int64_t step) const {
  if (step >= end) return sparsity;
  if (step <= begin) return 0;
  const int64_t updated = (step - begin) / every * every;
  const double left = 1 - static_cast<double>(updated) / static_cast<double>(end - begin);
  return sparsity * (1 - std::pow(left, 3));
}

}  // namespace trainer
