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
  TRAINER_HD Words block(int64_t four_elements, int32_t sample, int32_t step) const {
    return philox(key, element_counter(four_elements, sample, step));
  }
  TRAINER_HD bool drops(uint32_t word) const { return uniform(word) < static_cast<float>(p); }
  TRAINER_HD float kept() const { return static_cast<float>(1.0 / (1.0 - p)); }
  TRAINER_HD float factor(uint32_t word) const { return drops(word) ? 0.0f : kept(); }
};

/// The elements of samples that one of several ranks has: some of their rows, or some columns of each.
struct DropoutPart {
  Along along;
  int64_t rows_of_sample = 1, width = 1;  ///< of all ranks
  int64_t rows = 0;                       ///< of each rank; 0: it has all
  int64_t columns = 0;                    ///< of each rank; 0: it has all

  void describe(AttributeVisitor& visit) const;
};

/// x (N, …), sample indices i32 (N), step i32 (1) -> y. The gradient is the same operation on dy: the mask is
/// drawn again, not stored.
class Dropout final : public Operation {
 public:
  enum : size_t { kX, kSample, kStep, kInputs };
  enum : size_t { kY };

  explicit Dropout(DropoutSettings r, std::optional<DropoutPart> of = {}) : settings(r), part(of) {}
  std::string_view name() const override { return "dropout"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  bool in_place(size_t input, size_t) const override { return input == kX; }
  std::optional<FeatureCut> feature_cut(std::span<const TensorSpec>) const override { return {{{kX}}}; }
  std::vector<size_t> row_inputs(std::span<const TensorSpec>) const override { return {kX}; }
  std::shared_ptr<const Operation> on_part(const SharedPart& shared) const override;
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec>,
                                         std::span<const TensorSpec> outputs) const override {
    return links_of_elements({kX}, outputs[kY].shape);
  }
  bool is_non_negative(const std::vector<bool>& inputs) const override { return inputs[kX]; }

  const DropoutSettings settings;
  const std::optional<DropoutPart> part;  ///< of x; absent: x has whole samples
};

}  // namespace trainer
