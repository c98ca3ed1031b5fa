// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "core/base/dtype.h"

namespace trainer {

/// The precision of a run's computation. tf32: f32 tensors whose products a GPU rounds; amp: products and
/// activations in a type of two bytes, weights kept in f32.
enum class Precision { fp32, tf32, amp_fp16, amp_bf16 };

/// By Precision, as a recipe writes them.
constexpr std::array<const char*, 4> kPrecisionNames = {"fp32", "tf32", "amp_fp16", "amp_bf16"};

constexpr std::string_view to_string(Precision precision) {
  return kPrecisionNames[static_cast<size_t>(precision)];
}

/// Nothing if no precision has that name.
constexpr std::optional<Precision> precision_named(std::string_view name) {
  for (size_t i = 0; i < kPrecisionNames.size(); ++i) {
    if (kPrecisionNames[i] == name) return static_cast<Precision>(i);
  }
  return std::nullopt;
}

/// The type of two bytes of a mixed precision; nothing if there is none.
constexpr std::optional<DType> low_type(Precision precision) {
  if (precision == Precision::amp_fp16) return DType::f16;
  if (precision == Precision::amp_bf16) return DType::bf16;
  return std::nullopt;
}

/// Whether small gradients would vanish in the low type unless the loss is scaled up first.
constexpr bool scales_loss(Precision precision) {
  return precision == Precision::amp_fp16;
}

}  // namespace trainer
