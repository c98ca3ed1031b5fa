// SPDX-License-Identifier: Apache-2.0
#include "core/passes/pass.h"

namespace trainer {

const char* updating_entry(const Program& program) {
  return program.find_entry(entry_name::kUpdate) != nullptr ? entry_name::kUpdate : entry_name::kTrainStep;
}

void run_passes(Program& program, const std::vector<Pass>& passes, const PassObserver& observe) {
  for (const Pass& pass : passes) {
    pass.run(program);
    verify(program);
    if (observe) observe(pass.name, program);
  }
}

}  // namespace trainer
