// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "core/graph/operation.h"
#include "core/graph/ops/update_rules.h"

namespace trainer {

/// The settings in which one parameter's update differs from others'.
struct ParameterSettings {
  double weight_decay = 0;
  double lr_factor = 1;  ///< of the step's learning rate
  bool adapts = false;   ///< to the parameter's norms; only if the rule adapts at all
};

/// One pass over any number of parameters by a rule. Inputs: lr (1), updates so far i32 (1) or absent, scale
/// (1) or absent, skip (1) or absent, then for each parameter w, g and its moments. Outputs: w' and its
/// moments' for each. Gradients are multiplied with scale first. If skip is not 0, everything stays as it
/// was.
class OptimizerStep final : public Operation {
 public:
  enum Input : size_t { kLr, kUpdates, kScale, kSkip, kFirstParameter };

  OptimizerStep(update::Rule how, std::vector<ParameterSettings> of_parameters);
  std::string_view name() const override;
  std::optional<size_t> input_count() const override { return input_of(parameters()); }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t output) const override;
  InputRange in_place_inputs(size_t output, size_t inputs) const override;

  size_t parameters() const { return settings.size(); }
  /// Position of a parameter's weights; its gradient and moments follow.
  size_t input_of(size_t parameter) const { return kFirstParameter + parameter * (2 + moments); }
  /// Position of its new weights; its new moments follow.
  size_t output_of(size_t parameter) const { return parameter * (1 + moments); }

  const update::Rule rule;
  const size_t moments;                           ///< of each parameter
  const std::vector<ParameterSettings> settings;  ///< of each parameter
};

/// All gradients -> scale (1) = max_norm / (norm + eps) and norm (1), their joint 2-norm. The scale is at
/// most 1, unless it may lengthen shorter gradients.
class ClipByNorm final : public Operation {
 public:
  enum : size_t { kScale, kNorm };

  explicit ClipByNorm(double limit, double epsilon = 1e-6, bool may_lengthen = false)
      : max_norm(limit), eps(epsilon), lengthens(may_lengthen) {}
  std::string_view name() const override { return "clip_by_norm"; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const double max_norm, eps;
  const bool lengthens;
};

/// table (T), index i32 (1) -> table[min(index, T - 1)] (1).
class TableLookup final : public Operation {
 public:
  enum : size_t { kTable, kIndex, kInputs };
  enum : size_t { kY };

  std::string_view name() const override { return "table_lookup"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
};

/// counter i32 (1), skip (1) or absent -> counter + 1, or the unchanged counter if skip is not 0.
class Increment final : public Operation {
 public:
  enum : size_t {
    kCounter,
    kSkip,  ///< or absent
    kInputs
  };
  enum : size_t { kNext };

  std::string_view name() const override { return "increment"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t, size_t) const override { return true; }
};

}  // namespace trainer
