// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/host_device.h"
#include "core/base/math.h"
#include "core/graph/operation.h"

namespace trainer {

/// Why a step was skipped: it was listed; its loss or a gradient is not finite; its loss, or the 2-norm of
/// all gradients, is far above recent ones. Programs output these numbers, so they must not change.
enum class SkipReason : int32_t {
  none = 0,
  listed = 1,
  loss = 2,
  gradients = 3,
  spike = 4,
  gradient_spike = 5
};

/// A number is a spike if it is more than this many standard deviations above the mean of the last `window`
/// good steps. Nothing is a spike before half of the window is filled.
struct SpikeLimit {
  double loss_sigmas = 6, norm_sigmas = 6;  ///< 0: is not watched
  int64_t window = 128;

  static TRAINER_HD int64_t fewest(int64_t window) { return window / 2 > 2 ? window / 2 : 2; }

  /// `squares` is the sum of the squared distances of `count` numbers from their mean. A deviation counts as
  /// at least the rounding error of equal numbers in f32.
  static TRAINER_HD bool is_spike(double sigmas, double value, double mean, double squares, int64_t count) {
    constexpr double kRounding = 1e-6;
    const double least = kRounding * (mean < 0 ? -mean : mean);
    const double deviation = math::sqrt(squares / static_cast<double>(count - 1));
    return value - mean > sigmas * (deviation > least ? deviation : least);
  }
};

/// Decides whether a step changes anything. Inputs: loss (1), found (1) (not 0: a gradient is not finite),
/// norm of the gradients (1), steps before this one i32 (1), pairs of steps to skip i32 (2n), the last losses
/// and norms (2, window), their number, skipped steps and skipped steps in a row i32 (1). All but the loss
/// may be absent. Outputs: skip (1), held (1) (skip, unless a smaller scale of the loss would fix the
/// gradients), SkipReason i32 (1), and the last four inputs after this step.
class StepGuard final : public Operation {
 public:
  enum Input : size_t {
    kLoss,
    kFound,
    kNorm,
    kSteps,
    kSkipSteps,
    kWindow,
    kAccepted,
    kSkipped,
    kInARow,
    kInputs
  };
  enum Output : size_t { kSkip, kHeld, kReason, kFirstState };
  static constexpr size_t kStates = 4;  ///< from kWindow on, and from kFirstState on

  /// With `scaled`, the loss's scale handles gradients that are not finite.
  StepGuard(double of_loss, double of_norm, bool scales_loss)
      : loss_sigmas(of_loss), norm_sigmas(of_norm), scaled(scales_loss) {}
  std::string_view name() const override { return "step_guard"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t input, size_t output) const override {
    return input >= kWindow && input - kWindow + kFirstState == output;
  }

  const double loss_sigmas, norm_sigmas;  ///< as in SpikeLimit
  const bool scaled;
};

/// The inputs of a StepGuard for one step.
struct StepFacts {
  bool listed = false, finite_loss = true, found = false;
  bool loss_jumps = false, norm_jumps = false;
};

/// A StepGuard's decision about a step, and its counters after the step.
struct StepVerdict {
  SkipReason reason = SkipReason::none;
  bool skip = false;

  TRAINER_HD bool held() const { return reason != SkipReason::none; }
  TRAINER_HD int32_t skipped(int32_t before) const { return before + (held() ? 1 : 0); }
  /// A listed step does not count: it says nothing about the run.
  TRAINER_HD int32_t in_a_row(int32_t before) const {
    if (reason == SkipReason::listed) return before;
    if (reason == SkipReason::none) return skip ? before : 0;
    return before + 1;
  }

  static TRAINER_HD StepVerdict of(const StepFacts& step, bool scaled) {
    if (step.listed) return {SkipReason::listed, true};
    if (!step.finite_loss) return {SkipReason::loss, true};
    if (step.found && !scaled) return {SkipReason::gradients, true};
    if (step.loss_jumps) return {SkipReason::spike, true};
    if (step.found) return {SkipReason::none, true};
    if (step.norm_jumps) return {SkipReason::gradient_spike, true};
    return {SkipReason::none, false};
  }
};

}  // namespace trainer
