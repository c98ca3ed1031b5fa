// SPDX-License-Identifier: Apache-2.0
#include "core/train/loop_settings.h"

#include "core/graph/names.h"

namespace trainer {

std::vector<std::string> validation_metrics(const LoopSettings& settings) {
  std::vector<std::string> names = names_of(settings.metrics);
  std::erase(names, output_name::kLoss);
  return names;
}

}  // namespace trainer
