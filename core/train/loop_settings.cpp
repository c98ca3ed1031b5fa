// SPDX-License-Identifier: Apache-2.0
#include "core/train/loop_settings.h"

namespace trainer {

std::vector<std::string> validation_metrics(const LoopSettings& settings) {
  std::vector<std::string> names = settings.metrics;
  if (settings.averages) {
    names.push_back("ema_loss");
    for (const std::string& name : settings.metrics) names.push_back("ema_" + name);
  }
  return names;
}

}  // namespace trainer
