// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/sample_steps.h"
#include "core/graph/operation.h"

namespace trainer {

/// Rows of a batch from all samples: samples (S, C, H, W) u8, labels (S) i32, numbers and epochs (N) i32 ->
/// pixels (N, C, H', W') u8 after the steps, labels (N) i32. A number below 0 makes zeros.
class ReadSamples final : public Operation {
 public:
  enum : size_t { kSamples, kLabels, kNumbers, kEpochs, kInputs };
  enum : size_t {
    kPixels,
    kRowLabels,  ///< of the rows that were read
  };

  explicit ReadSamples(const SampleSteps& wanted) : steps(wanted) {}
  std::string_view name() const override { return "read_samples"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }

  const SampleSteps steps;
};

}  // namespace trainer
