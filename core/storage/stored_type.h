// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/shape.h"

namespace trainer {

/// Bits of an element of a safetensors type ("F32", "F4"); 0 for an unknown type.
int64_t element_bits(std::string_view dtype);
/// Its whole bytes.
inline int64_t element_bytes(std::string_view dtype) {
  return element_bits(dtype) / 8;
}

/// Bytes of a tensor; nothing if a size is negative, the product does not fit into 63 bits, or the last byte
/// is not full.
std::optional<int64_t> tensor_bytes(const Shape& shape, std::string_view dtype);

}  // namespace trainer
