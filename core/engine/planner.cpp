// SPDX-License-Identifier: Apache-2.0
#include "core/engine/planner.h"

namespace trainer {

std::optional<std::string> Planner::set_precision(Precision precision) {
  if (precision == Precision::fp32) return std::nullopt;
  return std::string(name()) + " computes in fp32 only; write fp32";
}

}  // namespace trainer
