// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/engine/device.h"

namespace trainer::cuda {

/// The kernel between the ends of an NVTX range of that name, which NVIDIA's profilers show. Without a
/// profiler a range only tests a pointer.
std::unique_ptr<Kernel> in_range(std::string name, std::unique_ptr<Kernel> kernel);

}  // namespace trainer::cuda
