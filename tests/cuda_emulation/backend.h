// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/engine/backend.h"

namespace trainer {

/// The CUDA backend's own kernels, run by the emulation: the same handlers, on memory that it watches.
std::unique_ptr<Backend> make_emulated_backend();

}  // namespace trainer
