// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/engine/backend.h"

namespace trainer::cuda {

/// Runs on the first GPU that the process sees; kernels run behind the host, which waits in upload and
/// download. Throws Error (exit 69) with the reason where there is no GPU that it can use.
std::unique_ptr<Backend> make_backend();

}  // namespace trainer::cuda
