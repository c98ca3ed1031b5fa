// SPDX-License-Identifier: Apache-2.0
#include "core/passes/pass.h"

namespace trainer {

void run_passes(Program& program, const std::vector<Pass>& passes, const PassObserver& observe) {
  for (const Pass& pass : passes) {
    pass.run(program);
    verify(program);
    if (observe) observe(pass.name, program);
  }
}

}  // namespace trainer
