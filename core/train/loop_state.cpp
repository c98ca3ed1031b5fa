// SPDX-License-Identifier: Apache-2.0
#include "core/train/loop_state.h"

namespace trainer {

bool LoopState::is_best(const std::string& metric) const {
  const auto in_last = last.find(metric), in_best = best.find(metric);
  return validated == step && in_last != last.end() && in_best != best.end() &&
         in_last->second == in_best->second;
}

}  // namespace trainer
