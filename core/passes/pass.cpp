// SPDX-License-Identifier: Apache-2.0
#include "core/passes/pass.h"

#include <algorithm>
#include <stdexcept>

namespace trainer {

void check_order(const std::vector<Pass>& passes) {
  for (size_t i = 0; i < passes.size(); ++i) {
    for (const std::string& earlier : passes[i].after) {
      const auto late = std::find_if(passes.begin() + static_cast<ptrdiff_t>(i), passes.end(),
                                     [&](const Pass& pass) { return pass.name == earlier; });
      if (late != passes.end())
        throw std::logic_error("the pass " + passes[i].name + " has to come after " + earlier);
    }
  }
}

void run_passes(Program& program, const std::vector<Pass>& passes, const PassObserver& observe) {
  check_order(passes);
  for (const Pass& pass : passes) {
    pass.run(program);
    verify(program);
    if (observe) observe(pass.name, program);
  }
}

}  // namespace trainer
