// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/backend.h"

namespace trainer {

/// The CUDA backend's own kernels, run by the emulation: the same handlers, on memory that it watches.
Backend make_emulated_backend();

}  // namespace trainer
