// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/backend.h"
#include "core/engine/tuning.h"
#include "core/recipe/run_spec.h"
#include "core/session/device.h"

namespace trainer {

/// The purpose of opening a device: planning needs only a description of a GPU, no GPU.
enum class Use { train, plan };

/// The backend chosen for the recipe; a plan's may have no device. Throws Error (exit 69) with the reason if
/// it is not available. It follows `tuning` and adds to it. `tuning` and `group` must outlive it; `group` is
/// null if the process is alone.
Backend open_device(const RunSpec& spec, Tuning& tuning, const DeviceChoice& device, Use use = Use::train,
                    ProcessGroup* group = nullptr);

/// The same for OpenDevice: to train.
Backend open_to_train(const RunSpec& spec, Tuning& tuning, const DeviceChoice& device, ProcessGroup* group);

}  // namespace trainer
