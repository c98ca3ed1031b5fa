// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/activation_levels.h"
#include "core/graph/operation.h"

namespace trainer {

/// From which step on numbers are rounded.
struct FakeQuantizeBegin {
  int64_t step = 0;
  TRAINER_HD bool has_come(const int32_t* now) const { return now == nullptr || *now >= step; }
};

/// Weights as products of few bits read them, but in f32 (Jacob et al., "Quantization and Training of Neural
/// Networks for Efficient Integer-Arithmetic-Only Inference", CVPR 2018): w f32 (O, ...), step i32 (1) or
/// absent -> y of w's shape, scale * integer as base/weight_bits.h says. y = w before `begin`, and where all
/// weights of a scale are zero. The gradient passes straight through: nothing is clipped.
class FakeQuantizeWeights final : public Operation {
 public:
  enum : size_t {
    kWeight,
    kStep,  ///< batches consumed, or absent: `begin` has come
    kInputs
  };
  enum : size_t { kY };

  explicit FakeQuantizeWeights(WeightLevels to, FakeQuantizeBegin from = {}) : levels(to), begin(from) {}
  std::string_view name() const override { return "fake_quantize_weights"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<TensorId> gradient(const Backward& backward) const override { return {backward.dy[kY], kNone}; }
  bool in_place(size_t input, size_t) const override { return input == kWeight; }

  const WeightLevels levels;
  const FakeQuantizeBegin begin;
};

/// Activations likewise: x f32 of any shape, range f32 (2), the least and greatest value so far (least <= 0
/// <= greatest), step i32 (1) or absent -> y of x's shape, rounded to the levels of the range
/// (base/activation_levels.h). Infinities saturate, NaN stays, and a range that is not finite gives NaN. y =
/// x before `begin`, and if the range is empty.
///
/// With `moves` the range is first widened to the finite values of x, so that nothing is clipped and the
/// gradient passes straight through. NaN makes the range NaN. `fresh` f32 (2) is then what a Lerp by kShare
/// moves the range to: at once to extremes beyond it, slowly to those within. Without `moves` there is no
/// `fresh`, and no gradient.
class FakeQuantize final : public Operation {
 public:
  enum : size_t {
    kX,
    kRange,
    kStep,  ///< batches consumed, or absent: `begin` has come
    kInputs
  };
  enum : size_t { kY, kFresh };
  static constexpr double kShare = 0.1;

  FakeQuantize(ActivationLevels to, bool with_moves, FakeQuantizeBegin from = {})
      : levels(to), moves(with_moves), begin(from) {}
  std::string_view name() const override { return "fake_quantize"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<TensorId> gradient(const Backward& backward) const override;
  bool in_place(size_t input, size_t output) const override { return input == kX && output == kY; }
  /// The range that it read is overwritten.
  bool may_run_again() const override { return !moves; }
  bool has_batch_statistics() const override { return moves; }
  bool is_non_negative(const std::vector<bool>& inputs) const override { return inputs[kX]; }

  /// The end of a range that a Lerp by kShare moves from `old` to `seen` at once if that is beyond, else
  /// slowly.
  TRAINER_HD static float fresh_low(float old, float seen) {
    return seen < old ? old + (seen - old) / static_cast<float>(kShare) : seen + (old - old);  // NaN stays
  }
  TRAINER_HD static float fresh_high(float old, float seen) {
    return seen > old ? old + (seen - old) / static_cast<float>(kShare) : seen + (old - old);
  }

  const ActivationLevels levels;
  const bool moves;
  const FakeQuantizeBegin begin;
};

/// The least and greatest of zero and finite values; both are NaN if a value is.
struct Extremes {
  float low = 0, high = 0;

  TRAINER_HD void add(float x) {
    if (x != x) low = high = x;
    if (!(x - x == 0.0f)) return;
    low = lower(low, x);
    high = higher(high, x);
  }
  TRAINER_HD void add(const Extremes& other) {
    low = lower(low, other.low);
    high = higher(high, other.high);
  }
  TRAINER_HD static float lower(float a, float b) { return b < a || b != b ? b : a; }
  TRAINER_HD static float higher(float a, float b) { return b > a || b != b ? b : a; }
};

}  // namespace trainer
