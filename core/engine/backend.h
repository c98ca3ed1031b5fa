// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/engine/device.h"
#include "core/engine/planner.h"

namespace trainer {

/// Runs operations: one half plans, the other executes.
struct Backend {
  std::unique_ptr<Planner> planner;
  std::unique_ptr<Device> device;  ///< null for a device that is only described
};

}  // namespace trainer
