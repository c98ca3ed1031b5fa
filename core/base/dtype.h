// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace trainer {

/// Element types of a tensor, as a program states them. A backend may store an element wider than its type.
enum class DType { f32, f16, bf16, i32, u8, i8 };

constexpr std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
    case DType::i8:
      return "i8";
  }
  return "?";
}

constexpr int64_t bytes_per_element(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::u8:
    case DType::i8:
      return 1;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}
/// Of two bytes: the type in which mixed precision stores activations.
constexpr bool is_low(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace trainer
