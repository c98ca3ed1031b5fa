// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/backend.h"
#include "core/engine/tuning.h"
#include "core/recipe/run_spec.h"
#include "core/session/device.h"

namespace trainer {

/// What a device is opened for: planning needs no GPU, only the description of one.
enum class Use { train, plan };

/// The backend that was chosen for the recipe; a plan's may have no device. Throws Error (exit 69) with the
/// reason where it is not available. With runtime.autotune it goes by `tuning` and adds to it, so that must
/// outlive it, and so must the ranks, which are null if the process is alone.
Backend open_device(const RunSpec& spec, Tuning& tuning, const DeviceChoice& device, Use use = Use::train,
                    Communicator* ranks = nullptr);

}  // namespace trainer
