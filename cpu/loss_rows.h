// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/engine/planner.h"
#include "core/graph/ops/cross_entropy.h"
#include "cpu/handler.h"

namespace trainer::cpu {

/// Largest of a row; NaN if the row holds one, so that it reaches the loss.
float row_max(const float* row, int64_t classes);
/// Of exp(x - largest) over a row.
float exp_sum(const float* row, float largest, int64_t classes);

/// Of a row of logits: its largest, and the sum of exp(x - largest).
struct RowSoftmax {
  float largest, sum;
};

/// Where each row's softmax is kept for the gradient; a loss without a gradient keeps none.
struct SoftmaxSlots {
  void *const *largest, *const *sum;

  /// The inputs or outputs of an operation `Op`.
  template <class Op>
  static SoftmaxSlots of(const std::vector<void* const*>& slots) {
    return {slots[Op::kLargest], slots[Op::kExpSum]};
  }
  void put(int64_t row, const RowSoftmax& softmax) const {
    if (largest != nullptr) at<float>(largest)[row] = softmax.largest;
    if (sum != nullptr) at<float>(sum)[row] = softmax.sum;
  }
  RowSoftmax at_row(int64_t row) const { return {at<const float>(largest)[row], at<const float>(sum)[row]}; }
};

/// The classes of logits that this rank has.
OwnClasses own_classes(const std::optional<ClassCut>& cut, int64_t held, const ProcessGroup* group);

/// Mixed precision gives losses f32; other types are refused.
std::optional<std::string> why_not_low(const OpContext& context);

}  // namespace trainer::cpu
