// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/optim/plateau.h"
#include "core/tasks/metric.h"

namespace trainer {

/// The state of a schedule that follows a metric. Checkpoints hold it.
struct PlateauState {
  std::string metric;          ///< that the other members are about
  std::optional<double> best;  ///< nothing before the first finite value
  int64_t bad = 0;             ///< evaluations in a row without improvement
  int64_t cooldown = 0;        ///< evaluations that are left of it
  double factor = 1;           ///< of the learning rate
  bool operator==(const PlateauState&) const = default;
};

/// The state after one more evaluation; that of another metric starts again, except for the factor.
PlateauState after_evaluation(const PlateauSettings& settings, Direction direction, PlateauState state,
                              double value);

}  // namespace trainer
