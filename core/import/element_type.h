// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/shape.h"

namespace trainer {

/// Bytes of an element of a safetensors type ("F32", "BOOL"); 0 for a type that no imported file has.
int64_t element_bytes(std::string_view dtype);

/// Bytes of a tensor; nothing if a size is negative or the product does not fit into 63 bits.
std::optional<int64_t> tensor_bytes(const Shape& shape, std::string_view dtype);

}  // namespace trainer
