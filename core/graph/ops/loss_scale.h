// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/graph/operation.h"

namespace trainer {

/// How the factor of the loss changes, as in PyTorch's GradScaler (Micikevicius et al., "Mixed Precision
/// Training", ICLR 2018): times `growth` after `interval` good steps in a row, times `backoff` after a step
/// that was skipped, but not below `smallest`: a gradient that overflows at that scale has another cause.
struct LossScaling {
  double initial = 65536, growth = 2, backoff = 0.5, smallest = 1;
  int64_t interval = 2000;
};

/// Its persistent tensors: the factor f32 (1), good steps in a row and skipped steps i32 (1). They are made
/// on first use, like the optimiser's: they are not weights, and are not averaged.
TensorId loss_scale(Program& program, const LossScaling& scaling = {});
TensorId good_step_counter(Program& program);
TensorId skipped_step_counter(Program& program);
/// The constant 1, f32 (1): the factor of an unscaled loss.
TensorId constant_one(Program& program);

/// loss scale (1), gradients f32… -> factor (1) to multiply gradients with, found (1), and with `max_norm`
/// their joint 2-norm without the scale (1). found is 1 if any gradient is not finite, else 0.
/// The factor is 1 / scale and, with `max_norm`, the factor of ClipByNorm, none if max_norm is infinite.
class Unscale final : public Operation {
 public:
  enum : size_t { kScale, kFirstGradient };
  enum : size_t {
    kFactor,
    kFound,
    kNorm,  ///< only with `max_norm`
  };

  explicit Unscale(std::optional<double> limit) : max_norm(limit) {}
  std::string_view name() const override { return "unscale"; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const std::optional<double> max_norm;
};

/// x, factor (1) -> x * factor. It has no gradient rule: it occurs only in updates.
class MultiplyBy final : public Operation {
 public:
  enum : size_t { kX, kFactor, kInputs };
  enum : size_t { kY };

  std::string_view name() const override { return "multiply_by"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t input, size_t) const override { return input == kX; }
};

/// scale (1), good steps i32 (1), skipped steps i32 (1), found (1), held (1) or absent -> the first three
/// after this step. The scale grows no further than f32 reaches. If held is not 0, all three stay: the step
/// was skipped for a reason that another scale would not fix.
class UpdateLossScale final : public Operation {
 public:
  enum : size_t {
    kScale,  ///< and the next two: the outputs have the same places
    kGoodSteps,
    kSkipped,
    kFound,
    kHeld,  ///< or absent
    kInputs
  };

  explicit UpdateLossScale(const LossScaling& how) : scaling(how) {}
  std::string_view name() const override { return "update_loss_scale"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t input, size_t output) const override { return input == output; }
  InputRange in_place_inputs(size_t output, size_t) const override { return {output, output + 1}; }

  const LossScaling scaling;
};

}  // namespace trainer
