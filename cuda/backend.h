// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/engine/backend_library.h"
#include "cuda/handler.h"

namespace trainer::cuda {

/// Runs on the first GPU that the process sees, asynchronously. For a described device it is a planner alone,
/// which needs no GPU. Throws Error (exit 69) with the reason if there is no usable GPU.
Backend make_backend(const BackendRequest& request);

/// The planner for a described GPU.
std::unique_ptr<Planner> make_described_planner(const BackendRequest& request);

/// Our own kernels, cuDNN's and cuBLASLt's.
std::shared_ptr<const Handlers> all_handlers();

}  // namespace trainer::cuda
