// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/engine/device.h"
#include "core/engine/planner.h"

namespace trainer {

/// What runs operations: plans are made by one half and executed by the other.
struct Backend {
  std::unique_ptr<Planner> planner;
  std::unique_ptr<Device> device;  ///< null for a device that is only described
};

}  // namespace trainer
