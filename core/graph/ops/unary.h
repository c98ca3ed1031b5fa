// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"
#include "core/graph/ops/elementwise.h"

namespace trainer {

/// y = f(x), element by element.
class Unary final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  explicit Unary(elementwise::Function f) : function(f) {}
  std::string_view name() const override;
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  bool in_place(size_t, size_t) const override { return true; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return true;
  }
  std::optional<FeatureCut> feature_cut(std::span<const TensorSpec>) const override { return {{{kX}}}; }
  std::vector<size_t> row_inputs(std::span<const TensorSpec>) const override { return {kX}; }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec>,
                                         std::span<const TensorSpec> outputs) const override {
    return links_of_elements({kX}, outputs[kY].shape);
  }
  bool is_non_negative(const std::vector<bool>& inputs) const override;

  const elementwise::Function function;
};

/// dx = dy * f'(x); inputs are dy and whichever of x and y the functor reads.
class UnaryBackward final : public Operation {
 public:
  enum : size_t {
    kDy,
    kSaved,  ///< x or y, whichever the function's gradient reads
    kInputs
  };
  enum : size_t { kDx };

  explicit UnaryBackward(elementwise::Function f);
  std::string_view name() const override { return name_; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t, size_t) const override { return true; }

  const elementwise::Function function;

 private:
  std::string name_;
};

/// "relu", "gelu", …
std::string_view function_name(const elementwise::Function& function);
elementwise::Reads gradient_reads(const elementwise::Function& function);
/// Reports the function's parameters.
void describe_parameters(elementwise::Function function, AttributeVisitor& visit);

/// The names of all functions, and the function of a name with its default parameters.
std::vector<std::string> function_names();
elementwise::Function function_named(std::string_view name);

}  // namespace trainer
