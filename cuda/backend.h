// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/engine/backend_library.h"

namespace trainer::cuda {

/// Runs on the first GPU that the process sees; kernels run behind the host, which waits in upload and
/// download. With a described device it only plans for that, and needs no GPU. Throws Error (exit 69) with
/// the reason where there is no GPU that it can use.
std::unique_ptr<Backend> make_backend(const BackendRequest& request);

/// The part of it that plans for a GPU that is only described.
std::unique_ptr<Backend> make_described_backend(const BackendRequest& request);

}  // namespace trainer::cuda
