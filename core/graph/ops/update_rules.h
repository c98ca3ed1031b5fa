// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <variant>
#include <vector>

#include "core/base/host_device.h"
#include "core/base/math.h"

// Every optimiser. A rule changes one element of a parameter. It is compiled by g++ for the CPU and by nvcc
// for the GPU, in float, and in double for the reference. The type list at the end turns each rule into an
// optimiser of that name for recipes, every backend's pass over all parameters, and the tests of correctness.

namespace trainer::update {

/// The state of an element's rule, in the order of the rule's moments(); unused ones are ignored.
template <class T>
struct Moments {
  T first{}, second{}, third{};
};
constexpr size_t kMostMoments = 3;

/// The ends of the moments' names, such as ".momentum".
using MomentNames = std::vector<const char*>;

/// Common settings of most optimisers: the recipe's keys lr, weight_decay and no_decay.
struct Defaults {
  static constexpr double kLr = 0.1, kWeightDecay = 0;
  static constexpr bool kSparesBiasAndNorm = false;  ///< no_decay: [bias, norm]
  /// If a rule adapts, each parameter's gradient and decay are multiplied with its ratio(…).
  static constexpr bool kAdapts = false;

  /// The inputs that all elements of a step share.
  template <class T>
  struct Step {
    T lr;
  };
  /// `updates`: those applied before this one.
  template <class T>
  TRAINER_HD Step<T> prepare(T lr, double /*updates*/) const {
    return {lr};
  }
};

/// SGD with momentum, as PyTorch's: g += decay * w; m = momentum * m + g;
/// w -= lr * (nesterov ? g + momentum * m : m). Without momentum, m does not exist.
struct Sgd : Defaults {
  static constexpr const char* kName = "sgd";
  static constexpr const char* kHelp = "stochastic gradient descent with momentum, as PyTorch's SGD";
  static constexpr size_t kMoments = 1;  ///< at most
  static constexpr double kFlops = 6;    ///< for each element
  double momentum = 0;
  bool nesterov = false;

  template <class F>
  void declare(F& fields) {
    fields.add("momentum", &momentum, "momentum factor").at_least(0).below(1);
    fields.add("nesterov", &nesterov, "use Nesterov momentum");
  }
  MomentNames moments() const { return momentum > 0 ? MomentNames{".momentum"} : MomentNames{}; }

  template <class T>
  TRAINER_HD void operator()(const Step<T>& step, T decay, T g, T& w, Moments<T>& m) const {
    g += decay * w;
    m.first = T(momentum) * m.first + g;
    w -= step.lr * (nesterov ? g + T(momentum) * m.first : m.first);
  }
};

/// Adam (Kingma, Ba, ICLR 2015), as PyTorch's: the decay is part of the gradient. The moments are means of
/// the gradient and of its square, each divided by 1 - beta^t, t counting updates from 1.
struct Adam : Defaults {
  static constexpr const char* kName = "adam";
  static constexpr const char* kHelp = "Adam with weight decay added to the gradient, as PyTorch's Adam";
  static constexpr double kLr = 1e-3;
  static constexpr size_t kMoments = 2;
  static constexpr double kFlops = 14;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;

  template <class F>
  void declare(F& fields) {
    fields.add("beta1", &beta1, "decay of the first moment").at_least(0).below(1);
    fields.add("beta2", &beta2, "decay of the second moment").at_least(0).below(1);
    fields.add("eps", &eps, "added to the denominator for numerical stability").above(0);
  }
  MomentNames moments() const { return {".exp_avg", ".exp_avg_sq"}; }

  template <class T>
  struct Step {
    T lr, correction1, root_correction2;
  };
  template <class T>
  TRAINER_HD Step<T> prepare(T lr, double updates) const {
    const double t = updates + 1;
    return {lr, static_cast<T>(1 - ::pow(beta1, t)), static_cast<T>(math::sqrt(1 - ::pow(beta2, t)))};
  }
  template <class T>
  TRAINER_HD void operator()(const Step<T>& step, T decay, T g, T& w, Moments<T>& m) const {
    move(step, g + decay * w, w, m.first, m.second);
  }
  template <class T>
  TRAINER_HD void move(const Step<T>& step, T g, T& w, T& m, T& v) const {
    m += T(1 - beta1) * (g - m);
    v = T(beta2) * v + T(1 - beta2) * g * g;
    w -= step.lr / step.correction1 * m / (math::sqrt(v) / step.root_correction2 + T(eps));
  }
};

/// AdamW (Loshchilov, Hutter, ICLR 2019), as PyTorch's: the decay shrinks the weights beside Adam's step.
struct AdamW : Adam {
  static constexpr const char* kName = "adamw";
  static constexpr const char* kHelp = "Adam with decoupled weight decay, as PyTorch's AdamW";
  static constexpr double kWeightDecay = 0.01;

  template <class T>
  TRAINER_HD void operator()(const Step<T>& step, T decay, T g, T& w, Moments<T>& m) const {
    w -= step.lr * decay * w;
    move(step, g, w, m.first, m.second);
  }
};

/// LARS (You, Gitman, Ginsburg, "Large Batch Training of Convolutional Networks", 2017): SGD with a step
/// proportional to the norm of the weights. Parameters that no_decay spares do not adapt: the ratio is
/// meaningless for a bias.
struct Lars : Sgd {
  static constexpr const char* kName = "lars";
  static constexpr const char* kHelp =
      "LARS: SGD with momentum and layer-wise rate scaling, for large batches";
  static constexpr double kFlops = 10;
  static constexpr bool kSparesBiasAndNorm = true, kAdapts = true;
  double trust_coefficient = 1e-3, eps = 1e-8;

  Lars() { momentum = 0.9; }
  template <class F>
  void declare(F& fields) {
    Sgd::declare(fields);
    fields.add("trust_coefficient", &trust_coefficient, "ratio of a step's norm to the norm of the weights")
        .above(0);
    fields.add("eps", &eps, "added to the denominator for numerical stability").at_least(0);
  }

  /// From the 2-norms of the parameter and of its gradient.
  TRAINER_HD double ratio(double decay, double weight_norm, double gradient_norm) const {
    if (weight_norm == 0 || gradient_norm == 0) return 1;
    return trust_coefficient * weight_norm / (gradient_norm + decay * weight_norm + eps);
  }
};

/// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023): the sign of a mixture of
/// gradient and running mean, beside which the decay shrinks the weights.
struct Lion : Defaults {
  static constexpr const char* kName = "lion";
  static constexpr const char* kHelp =
      "Lion: updates by the sign of the momentum, with decoupled weight decay";
  static constexpr double kLr = 1e-4;
  static constexpr size_t kMoments = 1;
  static constexpr double kFlops = 9;
  double beta1 = 0.9, beta2 = 0.99;

  template <class F>
  void declare(F& fields) {
    fields.add("beta1", &beta1, "weight of the momentum in the update").at_least(0).below(1);
    fields.add("beta2", &beta2, "decay of the momentum").at_least(0).below(1);
  }
  MomentNames moments() const { return {".exp_avg"}; }

  template <class T>
  TRAINER_HD void operator()(const Step<T>& step, T decay, T g, T& w, Moments<T>& m) const {
    const T mixed = T(beta1) * m.first + T(1 - beta1) * g;
    // NaN stays NaN.
    const T sign = mixed > T(0) ? T(1) : (mixed < T(0) ? T(-1) : mixed);
    w -= step.lr * (sign + decay * w);
    m.first = T(beta2) * m.first + T(1 - beta2) * g;
  }
};

/// RMSprop (Tieleman, Hinton, lecture 6.5 of "Neural Networks for Machine Learning", 2012), as PyTorch's: the
/// gradient is divided by the root of its running mean square, from which `centered` takes the square of the
/// running mean. The decay is part of the gradient. Momentum sums up the quotients.
struct RmsProp : Defaults {
  static constexpr const char* kName = "rmsprop";
  static constexpr const char* kHelp =
      "gradients divided by the root of their running mean square, as PyTorch's RMSprop";
  static constexpr double kLr = 1e-2;
  static constexpr size_t kMoments = 3;
  static constexpr double kFlops = 12;
  double alpha = 0.99, eps = 1e-8, momentum = 0;
  bool centered = false;

  template <class F>
  void declare(F& fields) {
    fields.add("alpha", &alpha, "decay of the mean of squared gradients").at_least(0).below(1);
    fields.add("eps", &eps, "added to the denominator for numerical stability").above(0);
    fields.add("momentum", &momentum, "momentum factor").at_least(0).below(1);
    fields.add("centered", &centered,
               "divide by the standard deviation instead, which takes one more moment");
  }
  MomentNames moments() const {
    MomentNames names = {".square_avg"};
    if (momentum > 0) names.push_back(".momentum");
    if (centered) names.push_back(".grad_avg");
    return names;
  }

  template <class T>
  TRAINER_HD void operator()(const Step<T>& step, T decay, T g, T& w, Moments<T>& m) const {
    g += decay * w;
    m.first = T(alpha) * m.first + T(1 - alpha) * g * g;
    T variance = m.first;
    if (centered) {
      T mean = momentum > 0 ? m.third : m.second;
      mean += T(1 - alpha) * (g - mean);
      variance -= mean * mean;
      if (variance < T(0)) variance = T(0);  // rounding, if all gradients are alike
      if (momentum > 0) m.third = mean;
      if (momentum == 0) m.second = mean;
    }
    T move = g / (math::sqrt(variance) + T(eps));
    if (momentum > 0) move = m.second = T(momentum) * m.second + move;
    w -= step.lr * move;
  }
};

/// The closing list: a new optimiser is its rule above and its name here.
using Rule = std::variant<Sgd, Adam, AdamW, Lars, Lion, RmsProp>;

}  // namespace trainer::update
