// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "core/base/host_device.h"
#include "core/base/math.h"
#include "core/graph/operation.h"

namespace trainer {

// Every loss that compares each output with its own target. A rule gives the loss l of an output x with the
// target t, and dl/dx; it is compiled by g++ for the CPU and by nvcc for the GPU. `positive` is the weight of
// the part that pulls x upwards.
namespace element_loss {

/// Binary cross entropy of the logit x and a target from 0 to 1, as PyTorch's BCEWithLogitsLoss:
/// l = -positive * t * log(s) - (1 - t) * log(1 - s), s = 1 / (1 + exp(-x)). Neither overflows nor cancels.
struct BinaryCrossEntropy {
  static constexpr const char* kName = "binary_cross_entropy";
  static constexpr const char* kBackwardName = "binary_cross_entropy_backward";
  static constexpr double kFlops = 12;

  template <class T>
  TRAINER_HD T loss(T x, T t, T positive) const {
    const T size = x < T(0) ? -x : x, rest = math::log1p(math::exp(-size));
    const T above = x < T(0) ? T(0) : x, below = x < T(0) ? -x : T(0);
    return positive * t * (below + rest) + (T(1) - t) * (above + rest);
  }
  template <class T>
  TRAINER_HD T gradient(T x, T t, T positive) const {
    const T e = math::exp(x < T(0) ? x : -x);
    const T larger = T(1) / (T(1) + e), smaller = e * larger;  // of s and 1 - s
    return (T(1) - t) * (x < T(0) ? smaller : larger) - positive * t * (x < T(0) ? larger : smaller);
  }
};

/// l = (x - t)^2
struct SquaredError {
  static constexpr const char* kName = "squared_error";
  static constexpr const char* kBackwardName = "squared_error_backward";
  static constexpr double kFlops = 3;

  template <class T>
  TRAINER_HD T loss(T x, T t, T /*positive*/) const {
    return (x - t) * (x - t);
  }
  template <class T>
  TRAINER_HD T gradient(T x, T t, T /*positive*/) const {
    return T(2) * (x - t);
  }
};

/// l = |x - t|; its gradient at x = t is 0.
struct AbsoluteError {
  static constexpr const char* kName = "absolute_error";
  static constexpr const char* kBackwardName = "absolute_error_backward";
  static constexpr double kFlops = 2;

  template <class T>
  TRAINER_HD T loss(T x, T t, T /*positive*/) const {
    const T difference = x - t;
    return difference < T(0) ? -difference : difference;
  }
  template <class T>
  TRAINER_HD T gradient(T x, T t, T /*positive*/) const {
    const T difference = x - t;  // 0 and NaN stay
    return difference < T(0) ? T(-1) : difference > T(0) ? T(1) : difference;
  }
};

/// As PyTorch's HuberLoss: l = d^2 / 2 for |d| <= delta, d = x - t, and delta * (|d| - delta / 2) beyond.
struct Huber {
  static constexpr const char* kName = "huber";
  static constexpr const char* kBackwardName = "huber_backward";
  static constexpr double kFlops = 5;

  float delta = 1;

  template <class T>
  TRAINER_HD T loss(T x, T t, T /*positive*/) const {
    const T bound = static_cast<T>(delta), difference = x - t;
    const T size = difference < T(0) ? -difference : difference;
    return size <= bound ? size * size / T(2) : bound * (size - bound / T(2));
  }
  template <class T>
  TRAINER_HD T gradient(T x, T t, T /*positive*/) const {
    const T bound = static_cast<T>(delta), difference = x - t;
    return difference < -bound ? -bound : difference > bound ? bound : difference;
  }
};

using Rule = std::variant<BinaryCrossEntropy, SquaredError, AbsoluteError, Huber>;

}  // namespace element_loss

/// x (N, ...), targets of that shape, weights (N) -> loss (1), the sum over samples of weights[n] times the
/// mean of the rule's loss over the sample's elements. With weights 1 / N it is the mean over all elements.
/// For x (N, C) `positive` may be given for each of the C elements; absent, it is 1. Samples of weight 0 do
/// not count, even with NaN.
class ElementLoss final : public Operation {
 public:
  enum : size_t {
    kX,
    kTargets,
    kWeights,   ///< (N), of samples
    kPositive,  ///< (C), or absent
    kInputs
  };
  enum : size_t { kLoss };

  explicit ElementLoss(element_loss::Rule how) : rule(how) {}
  std::string_view name() const override;
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  std::optional<size_t> judged_input() const override { return kX; }

  const element_loss::Rule rule;
};

/// dloss (1), then element_loss's inputs -> dx.
class ElementLossBackward final : public Operation {
 public:
  enum : size_t { kDloss, kX, kTargets, kWeights, kPositive, kInputs };
  enum : size_t { kDx };

  explicit ElementLossBackward(element_loss::Rule how) : rule(how) {}
  std::string_view name() const override;
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t) const override { return input == kX; }

  const element_loss::Rule rule;
};

/// The partition of a loss's elements for a sum: each sample in parts of equal length, the last of which may
/// be shorter. It does not depend on threads, so sums are reproducible.
struct ElementParts {
  ElementParts(const Shape& x, int64_t length_of_part)
      : samples(x[0]),
        of_sample(numel(x) / x[0]),
        length(length_of_part),
        per_sample((of_sample + length_of_part - 1) / length_of_part) {}
  int64_t count() const { return samples * per_sample; }

  int64_t samples, of_sample;  ///< samples, and elements of one
  int64_t length, per_sample;  ///< elements of a part, and parts of a sample
};

}  // namespace trainer
