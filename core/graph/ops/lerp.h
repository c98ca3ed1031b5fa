// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// old, fresh of one shape, skip (1) or absent -> old + share * (scale * fresh - old): a running average.
/// Returns old if skip is not 0, whatever the value of fresh.
class Lerp final : public Operation {
 public:
  enum : size_t {
    kOld,
    kFresh,
    kSkip,  ///< or absent
    kInputs
  };
  enum : size_t { kY };

  explicit Lerp(double portion, double factor = 1) : share(portion), scale(factor) {}
  std::string_view name() const override { return "lerp"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t) const override { return input == kOld || input == kFresh; }

  const double share, scale;
};

}  // namespace trainer
