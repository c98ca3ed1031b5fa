// SPDX-License-Identifier: Apache-2.0
#include "core/train/loop_settings.h"

#include <stdexcept>

#include "core/graph/names.h"

namespace trainer {

Direction direction_in(const LoopSettings& settings, const std::string& metric) {
  const Metric* found = find_metric(settings.metrics, metric);
  if (found == nullptr) throw std::out_of_range("no metric " + metric);
  return found->direction;
}

std::vector<std::string> validation_metrics(const LoopSettings& settings) {
  std::vector<std::string> names = names_of(settings.metrics);
  std::erase(names, output_name::kLoss);
  return names;
}

}  // namespace trainer
