// SPDX-License-Identifier: Apache-2.0
#include "core/import/element_type.h"

#include <algorithm>
#include <array>
#include <utility>

namespace trainer {

int64_t element_bytes(std::string_view dtype) {
  static constexpr std::array<std::pair<std::string_view, int64_t>, 15> kSizes = {{{"F32", 4},
                                                                                   {"F16", 2},
                                                                                   {"BF16", 2},
                                                                                   {"F64", 8},
                                                                                   {"I64", 8},
                                                                                   {"I32", 4},
                                                                                   {"I16", 2},
                                                                                   {"I8", 1},
                                                                                   {"U64", 8},
                                                                                   {"U32", 4},
                                                                                   {"U16", 2},
                                                                                   {"U8", 1},
                                                                                   {"BOOL", 1},
                                                                                   {"F8_E4M3", 1},
                                                                                   {"F8_E5M2", 1}}};
  const auto* found = std::ranges::find(kSizes, dtype, [](const auto& row) { return row.first; });
  return found == kSizes.end() ? 0 : found->second;
}

std::optional<int64_t> tensor_bytes(const Shape& shape, std::string_view dtype) {
  int64_t bytes = element_bytes(dtype);
  for (const int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace trainer
