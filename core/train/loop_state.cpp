// SPDX-License-Identifier: Apache-2.0
#include "core/train/loop_state.h"

namespace trainer {

bool LoopState::is_best(const std::string& metric) const {
  return kept && kept->metric == metric && kept->step == step && validated == step;
}

}  // namespace trainer
