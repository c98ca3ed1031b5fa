// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer::cuda {

/// This machine's support for CUDA, as described at kBackendInspector: versions of driver and libraries, and
/// each GPU with cuDNN's properties of it.
std::string inspect();

}  // namespace trainer::cuda
