// SPDX-License-Identifier: Apache-2.0
#include "core/storage/stored_type.h"

#include <algorithm>
#include <array>

namespace trainer {
namespace {

struct StoredType {
  std::string_view name;
  int64_t bits;
};
constexpr std::array<StoredType, 22> kTypes = {{
    {"F32", 32},        {"F16", 16},        {"BF16", 16},   {"F64", 64},    {"I64", 64}, {"I32", 32},
    {"I16", 16},        {"I8", 8},          {"U64", 64},    {"U32", 32},    {"U16", 16}, {"U8", 8},
    {"BOOL", 8},        {"C64", 64},        {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F4", 4},   {"F8_E8M0", 8},
    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6},
}};

}  // namespace

int64_t element_bits(std::string_view dtype) {
  const auto* found = std::ranges::find(kTypes, dtype, &StoredType::name);
  return found == kTypes.end() ? 0 : found->bits;
}

std::optional<int64_t> tensor_bytes(const Shape& shape, std::string_view dtype) {
  int64_t bits = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bits, size, &bits)) return std::nullopt;
  }
  if (__builtin_mul_overflow(bits, element_bits(dtype), &bits) || bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

}  // namespace trainer
