// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// old, fresh of one shape, skip (1) -> fresh, or old if skip is not 0; the other's values are not
/// read. It has no gradient rule: it occurs only in updates.
class Keep final : public Operation {
 public:
  enum : size_t { kOld, kFresh, kSkip, kInputs };
  enum : size_t { kY };

  std::string_view name() const override { return "keep"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool in_place(size_t input, size_t) const override { return input == kOld || input == kFresh; }
};

}  // namespace trainer
