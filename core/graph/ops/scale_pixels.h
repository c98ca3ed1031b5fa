// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// The bytes of images as numbers: y = scale * x + offset, x (N, C, H, W) u8, scale and offset (C) f32; in
/// f32, then rounded to the type of y. Inputs have no gradient. As with a cast, planning lets it write the
/// layout of the first reader. With `channels`, more than C, y has this many, those after x's of zeros (set
/// by pad_channels).
class ScalePixels final : public Operation {
 public:
  enum : size_t { kX, kScale, kOffset, kInputs };
  enum : size_t { kY };

  explicit ScalePixels(DType dtype, int64_t of_y = 0) : to(dtype), channels(of_y) {}
  std::string_view name() const override { return "scale_pixels"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const DType to;
  const int64_t channels;  ///< of y; 0: as in x
};

}  // namespace trainer
