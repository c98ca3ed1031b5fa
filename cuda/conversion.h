// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/dtype.h"

namespace trainer::cuda {

// The host's numbers as kernels store them: rounded to nearest, or to whole numbers towards zero.

std::vector<std::byte> to_stored(std::span<const float> values, DType dtype);
void from_stored(std::span<const std::byte> stored, DType dtype, float* values);

}  // namespace trainer::cuda
