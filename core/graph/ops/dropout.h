// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/host_device.h"
#include "core/base/rng.h"
#include "core/graph/operation.h"

namespace trainer {

/// The factor of one element: 0 with probability p, 1 / (1 - p) otherwise. A pure function of the layer's
/// key, the step, the sample's place in the global batch and the element's place in the sample.
struct DropoutSettings {
  double p = 0.5;
  uint64_t key = 0;

  void describe(AttributeVisitor& visit) const;
  TRAINER_HD static Words counter(int64_t four_elements, int32_t sample, int32_t step) {
    return {{static_cast<uint32_t>(four_elements), static_cast<uint32_t>(four_elements >> 32),
             static_cast<uint32_t>(sample), static_cast<uint32_t>(step)}};
  }
  TRAINER_HD Words block(int64_t four_elements, int32_t sample, int32_t step) const {
    return philox(key, counter(four_elements, sample, step));
  }
  TRAINER_HD bool drops(uint32_t word) const { return uniform(word) < static_cast<float>(p); }
  TRAINER_HD float kept() const { return static_cast<float>(1.0 / (1.0 - p)); }
  TRAINER_HD float factor(uint32_t word) const { return drops(word) ? 0.0f : kept(); }
};

/// x (N, …), sample indices i32 (N), step i32 (1) -> y. The gradient is the same operation on dy: the mask is
/// drawn again, not stored.
class Dropout final : public Operation {
 public:
  enum : size_t { kX, kSample, kStep, kInputs };
  enum : size_t { kY };

  explicit Dropout(DropoutSettings r) : settings(r) {}
  std::string_view name() const override { return "dropout"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  bool in_place(size_t input, size_t) const override { return input == kX; }

  const DropoutSettings settings;
};

}  // namespace trainer
