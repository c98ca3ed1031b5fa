// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "core/base/host_device.h"
#include "core/base/math.h"

// Every element-wise function of one argument. A functor computes y = f(x) and, from y or from x, the
// gradient dx = dy * f'(x); it is compiled by g++ for the CPU and by nvcc for the GPU. The type list at the
// end makes an operation, its gradient, a layer of that name and both backends' loops out of each functor.

namespace trainer::elementwise {

/// Which tensor a functor's gradient reads besides dy. Reading y lets x die early.
enum class Reads { x, y };

/// y = max(x, 0)
struct Relu {
  static constexpr const char* kName = "relu";
  static constexpr const char* kHelp = "y = max(x, 0)";
  static constexpr Reads kGradientReads = Reads::y;
  template <class F>
  void declare(F&) {}
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return x < T(0) ? T(0) : x;  // so that NaN stays NaN
  }
  template <class T>
  TRAINER_HD T gradient(T y, T dy) const {
    return y > T(0) ? dy : T(0);
  }
};

/// y = x for x > 0, negative_slope * x otherwise
struct LeakyRelu {
  static constexpr const char* kName = "leaky_relu";
  static constexpr const char* kHelp = "y = x for x > 0, negative_slope * x otherwise";
  static constexpr Reads kGradientReads = Reads::x;
  double negative_slope = 0.01;
  template <class F>
  void declare(F& fields) {
    fields.add("negative_slope", &negative_slope, "slope for x < 0");
  }
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return x > T(0) ? x : T(negative_slope) * x;
  }
  template <class T>
  TRAINER_HD T gradient(T x, T dy) const {
    return x > T(0) ? dy : T(negative_slope) * dy;
  }
};

/// y = 1 / (1 + exp(-x)), dy/dx = y * (1 - y)
struct Sigmoid {
  static constexpr const char* kName = "sigmoid";
  static constexpr const char* kHelp = "y = 1 / (1 + exp(-x))";
  static constexpr Reads kGradientReads = Reads::y;
  template <class F>
  void declare(F&) {}
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return T(1) / (T(1) + math::exp(-x));
  }
  template <class T>
  TRAINER_HD T gradient(T y, T dy) const {
    return dy * y * (T(1) - y);
  }
};

/// y = tanh(x), dy/dx = 1 - y^2
struct Tanh {
  static constexpr const char* kName = "tanh";
  static constexpr const char* kHelp = "y = tanh(x)";
  static constexpr Reads kGradientReads = Reads::y;
  template <class F>
  void declare(F&) {}
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return math::tanh(x);
  }
  template <class T>
  TRAINER_HD T gradient(T y, T dy) const {
    return dy * (T(1) - y * y);
  }
};

/// y = x * s(x) with s the sigmoid, dy/dx = s * (1 + x * (1 - s))
struct Silu {
  static constexpr const char* kName = "silu";
  static constexpr const char* kHelp = "y = x * sigmoid(x), also called swish";
  static constexpr Reads kGradientReads = Reads::x;
  template <class F>
  void declare(F&) {}
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return x / (T(1) + math::exp(-x));
  }
  template <class T>
  TRAINER_HD T gradient(T x, T dy) const {
    const T s = T(1) / (T(1) + math::exp(-x));
    return dy * s * (T(1) + x * (T(1) - s));
  }
};

/// y = x * P(x), P the normal distribution's cumulative function, p its density: dy/dx = P(x) + x * p(x)
struct Gelu {
  static constexpr const char* kName = "gelu";
  static constexpr const char* kHelp = "y = x * (1 + erf(x / sqrt(2))) / 2";
  static constexpr Reads kGradientReads = Reads::x;
  template <class F>
  void declare(F&) {}
  template <class T>
  static TRAINER_HD T cumulative(T x) {
    return T(0.5) * (T(1) + math::erf(x * T(0.70710678118654752440)));
  }
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return x * cumulative(x);
  }
  template <class T>
  TRAINER_HD T gradient(T x, T dy) const {
    const T density = T(0.39894228040143267794) * math::exp(T(-0.5) * x * x);
    return dy * (cumulative(x) + x * density);
  }
};

/// y = min(max(x, 0), 6)
struct Relu6 {
  static constexpr const char* kName = "relu6";
  static constexpr const char* kHelp = "y = min(max(x, 0), 6)";
  static constexpr Reads kGradientReads = Reads::y;
  template <class F>
  void declare(F&) {}
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return math::clamp(x, T(0), T(6));
  }
  template <class T>
  TRAINER_HD T gradient(T y, T dy) const {
    return y > T(0) && y < T(6) ? dy : T(0);
  }
};

/// y = min(max(x, min_value), max_value)
struct HardTanh {
  static constexpr const char* kName = "hard_tanh";
  static constexpr const char* kHelp = "y = min(max(x, min_value), max_value)";
  static constexpr Reads kGradientReads = Reads::y;
  double min_value = -1, max_value = 1;
  template <class F>
  void declare(F& fields) {
    fields.add("min_value", &min_value, "least y");
    fields.add("max_value", &max_value, "largest y");
  }
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return math::clamp(x, T(min_value), T(max_value));
  }
  template <class T>
  TRAINER_HD T gradient(T y, T dy) const {
    return y > T(min_value) && y < T(max_value) ? dy : T(0);
  }
};

/// y = min(max(x + 3, 0), 6) / 6
struct HardSigmoid {
  static constexpr const char* kName = "hard_sigmoid";
  static constexpr const char* kHelp = "y = min(max(x + 3, 0), 6) / 6";
  static constexpr Reads kGradientReads = Reads::x;
  template <class F>
  void declare(F&) {}
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return math::clamp(x + T(3), T(0), T(6)) * T(1.0 / 6);
  }
  template <class T>
  TRAINER_HD T gradient(T x, T dy) const {
    return x > T(-3) && x < T(3) ? dy * T(1.0 / 6) : T(0);
  }
};

/// y = x * h(x) with h the hard sigmoid; dy/dx = 0 below -3, x / 3 + 1/2 up to 3, 1 from there
struct HardSwish {
  static constexpr const char* kName = "hard_swish";
  static constexpr const char* kHelp = "y = x * min(max(x + 3, 0), 6) / 6";
  static constexpr Reads kGradientReads = Reads::x;
  template <class F>
  void declare(F&) {}
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return x * (math::clamp(x + T(3), T(0), T(6)) * T(1.0 / 6));
  }
  template <class T>
  TRAINER_HD T gradient(T x, T dy) const {
    const T inner = dy * (x * T(1.0 / 3) + T(0.5));
    return x < T(-3) ? T(0) : (x < T(3) ? inner : dy);
  }
};

/// The closing list: a new function is its functor above and its name here.
using Function =
    std::variant<Relu, LeakyRelu, Sigmoid, Tanh, Silu, Gelu, Relu6, HardTanh, HardSigmoid, HardSwish>;

}  // namespace trainer::elementwise
