// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/graph/operation.h"

namespace trainer {

/// Operations of one kind, each on a set of tensors; no set depends on another. The inputs (and outputs) of
/// the first set come first, then those of the second, and so on. Sets have the same element types; shapes
/// may differ, and so may numbers among the attributes. Results are bitwise identical to those of separate
/// nodes. A pass makes it of existing nodes, so it has no gradient.
class ForEach final : public Operation {
 public:
  ForEach(std::vector<std::shared_ptr<const Operation>> of_sets, size_t inputs, size_t outputs)
      : ops(std::move(of_sets)), inputs_of_set(inputs), outputs_of_set(outputs) {}
  /// That of the operations.
  std::string_view name() const override { return ops[0]->name(); }
  std::optional<size_t> input_count() const override { return ops.size() * inputs_of_set; }
  /// A number that differs between sets is a list.
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  /// Of the tensors of one set only.
  bool in_place(size_t input, size_t output) const override;
  InputRange in_place_inputs(size_t output, size_t inputs) const override;

  const std::vector<std::shared_ptr<const Operation>> ops;  ///< at least one
  const size_t inputs_of_set, outputs_of_set;
};

}  // namespace trainer
