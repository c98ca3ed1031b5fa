// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

#include "core/base/dtype.h"

namespace trainer {

class Operation;

/// The end of a product in 8 bits: y = clip(multiplier[o] * sum + bias[o] + residual_factor * residual). The
/// result is clipped to [0, ceiling] with `relu`. It is stored as f32 or, rounded to the nearest whole number
/// and saturated, as u8.
struct QuantizedEnd {
  DType y = DType::f32;
  bool relu = false;
  double ceiling = std::numeric_limits<double>::infinity();  ///< only with `relu`
  double residual_factor = 1;

  template <class Visit>
  void describe(Visit& visit) const {
    visit("relu", relu);
    visit("ceiling", ceiling, {.hidden = ceiling == std::numeric_limits<double>::infinity()});
    visit("residual_factor", residual_factor, {.hidden = residual_factor == 1});
    visit("y_is_u8", y == DType::u8);
  }
};

/// The most products of a byte and an i8 whose sum fits into 32 bits, whatever they are.
constexpr int64_t kMostSummedInBytes = int64_t{0x7fffffff} / (255 * 127);

/// How a product is computed in 8 bits (ops/quantized_product.h): where its operands are, and the operation.
struct QuantizedForm {
  size_t x, weight, bias, addend;  ///< inputs of the operation in f32; its only output is y
  bool relu = false;
  bool pads = false;  ///< it reads zeros beyond the borders of x, so that zero must be stored as zero
  std::function<std::shared_ptr<const Operation>(const QuantizedEnd&)> make;
};

}  // namespace trainer
