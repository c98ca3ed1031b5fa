// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer::cuda {

/// What this machine has for CUDA, as kBackendInspector promises it: versions of driver and libraries, and
/// each GPU with cuDNN's properties of it.
std::string inspect();

}  // namespace trainer::cuda
