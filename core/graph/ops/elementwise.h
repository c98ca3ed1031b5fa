// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "core/base/host_device.h"
#include "core/base/math.h"

// Every element-wise function of one argument. A functor computes y = f(x) and, from y or from x, the
// gradient dx = dy * f'(x); it is compiled by g++ for the CPU and by nvcc for the GPU. The type list at the
// end turns each functor into an operation, its gradient, a layer of that name and both backends' loops.
// `onnx` writes y = f(x) with operators of ONNX (core/export/onnx_graph.h), for `trainer export`.
//
// A functor whose y is never negative says so (kIsNonNegative).
//
// A NaN x gives a NaN y. Gradients are zero only for an x that is known to be clamped, as in PyTorch: a NaN x
// or y passes dy. So comparisons test whether a number is out of bounds, never whether it is within them. The
// sign of a zero may be lost.

namespace trainer::elementwise {

/// Which tensor a functor's gradient reads besides dy. Reading y lets x die early.
enum class Reads { x, y };

/// y = max(x, 0)
struct Relu {
  static constexpr const char* kName = "relu";
  static constexpr bool kIsNonNegative = true;
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
    return y <= T(0) ? T(0) : dy;
  }
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    return graph.node("Relu", {x});
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
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    return graph.node("LeakyRelu", {x}, {{"alpha", negative_slope}});
  }
};

/// y = 1 / (1 + exp(-x)), dy/dx = y * (1 - y)
struct Sigmoid {
  static constexpr const char* kName = "sigmoid";
  static constexpr bool kIsNonNegative = true;
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
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    return graph.node("Sigmoid", {x});
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
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    return graph.node("Tanh", {x});
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
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    return graph.node("Mul", {x, graph.node("Sigmoid", {x})});
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
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    if (graph.opset() >= 20) return graph.node("Gelu", {x});
    const auto erf = graph.node("Erf", {graph.node("Div", {x, graph.number(1.41421356237309504880)})});
    const auto twice = graph.node("Mul", {x, graph.node("Add", {erf, graph.number(1)})});
    return graph.node("Mul", {twice, graph.number(0.5)});
  }
};

/// Gelu with P(x) = (1 + tanh(u)) / 2, u = sqrt(2 / pi) * (x + 0.044715 * x^3), as GPT-2 has it
struct GeluTanh {
  static constexpr const char* kName = "gelu_tanh";
  static constexpr const char* kHelp = "y = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2";
  static constexpr Reads kGradientReads = Reads::x;
  static constexpr double kScale = 0.79788456080286535588, kCube = 0.044715;
  template <class F>
  void declare(F&) {}
  static constexpr double kFlat = 10;  ///< from here on the hyperbolic tangent is 1
  template <class T>
  static TRAINER_HD T tanh_of(T x) {
    return math::tanh(T(kScale) * (x + T(kCube) * x * x * x));
  }
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return T(0.5) * x * (T(1) + tanh_of(math::clamp(x, T(-kFlat), T(kFlat))));
  }
  template <class T>
  TRAINER_HD T gradient(T x, T dy) const {
    const T near = math::clamp(x, T(-kFlat), T(kFlat)), t = tanh_of(near);
    const T slope = T(kScale) * (T(1) + T(3 * kCube) * near * near);
    return T(0.5) * dy * (T(1) + t + x * (T(1) - t * t) * slope);
  }
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    if (graph.opset() >= 20) return graph.node("Gelu", {x}, {{"approximate", "tanh"}});
    const auto cube = graph.node("Mul", {graph.node("Mul", {x, x}), x});
    const auto sum = graph.node("Add", {x, graph.node("Mul", {cube, graph.number(kCube)})});
    const auto tanh = graph.node("Tanh", {graph.node("Mul", {sum, graph.number(kScale)})});
    const auto twice = graph.node("Mul", {x, graph.node("Add", {tanh, graph.number(1)})});
    return graph.node("Mul", {twice, graph.number(0.5)});
  }
};

/// y = x for x > 0, alpha * (exp(x) - 1) otherwise; dy/dx = 1 or y + alpha
struct Elu {
  static constexpr const char* kName = "elu";
  static constexpr const char* kHelp = "y = x for x > 0, alpha * (exp(x) - 1) otherwise";
  static constexpr Reads kGradientReads = Reads::x;
  double alpha = 1;
  template <class F>
  void declare(F& fields) {
    fields.add("alpha", &alpha, "negated limit for x towards minus infinity");
  }
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return x > T(0) ? x : T(alpha) * math::expm1(x);
  }
  template <class T>
  TRAINER_HD T gradient(T x, T dy) const {
    return x > T(0) ? dy : dy * (T(alpha) * math::exp(x));
  }
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    return graph.node("Elu", {x}, {{"alpha", alpha}});
  }
};

/// y = log(1 + exp(x)), without overflow; dy/dx = 1 / (1 + exp(-x))
struct Softplus {
  static constexpr const char* kName = "softplus";
  static constexpr bool kIsNonNegative = true;
  static constexpr const char* kHelp = "y = log(1 + exp(x))";
  static constexpr Reads kGradientReads = Reads::x;
  template <class F>
  void declare(F&) {}
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return (x < T(0) ? T(0) : x) + math::log1p(math::exp(x < T(0) ? x : -x));
  }
  template <class T>
  TRAINER_HD T gradient(T x, T dy) const {
    return dy / (T(1) + math::exp(-x));
  }
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    return graph.node("Softplus", {x});
  }
};

/// y = x * t with t = tanh(log(1 + e)) = n / (n + 2), where e = exp(x), n = e * (e + 2); t' = 4e(e + 1) / (n
/// + 2)^2
struct Mish {
  static constexpr const char* kName = "mish";
  static constexpr const char* kHelp = "y = x * tanh(log(1 + exp(x)))";
  static constexpr Reads kGradientReads = Reads::x;
  static constexpr double kFlat = 20;  ///< from here on t is 1
  template <class F>
  void declare(F&) {}
  template <class T>
  TRAINER_HD T operator()(T x) const {
    const T e = math::exp(x > T(kFlat) ? T(kFlat) : x), n = e * (e + T(2));
    return x * (n / (n + T(2)));
  }
  template <class T>
  TRAINER_HD T gradient(T x, T dy) const {
    const T near = x > T(kFlat) ? T(kFlat) : x;
    const T e = math::exp(near), n = e * (e + T(2)), d = T(1) / (n + T(2));
    return dy * (n * d + near * (T(4) * e * (e + T(1)) * d * d));
  }
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    if (graph.opset() >= 18) return graph.node("Mish", {x});
    return graph.node("Mul", {x, graph.node("Tanh", {graph.node("Softplus", {x})})});
  }
};

/// y = min(max(x, 0), 6)
struct Relu6 {
  static constexpr const char* kName = "relu6";
  static constexpr bool kIsNonNegative = true;
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
    return y <= T(0) || y >= T(6) ? T(0) : dy;
  }
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    return graph.node("Clip", {x, graph.number(0), graph.number(6)});
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
    fields.add("min_value", &min_value, "smallest y");
    fields.add("max_value", &max_value, "largest y");
  }
  template <class T>
  TRAINER_HD T operator()(T x) const {
    return math::clamp(x, T(min_value), T(max_value));
  }
  template <class T>
  TRAINER_HD T gradient(T y, T dy) const {
    return y <= T(min_value) || y >= T(max_value) ? T(0) : dy;
  }
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    return graph.node("Clip", {x, graph.number(min_value), graph.number(max_value)});
  }
};

/// y = min(max(x + 3, 0), 6) / 6
struct HardSigmoid {
  static constexpr const char* kName = "hard_sigmoid";
  static constexpr bool kIsNonNegative = true;
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
    return x <= T(-3) || x >= T(3) ? T(0) : dy * T(1.0 / 6);
  }
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    return graph.node("HardSigmoid", {x}, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
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
  template <class Graph>
  typename Graph::Value onnx(Graph& graph, const typename Graph::Value& x) const {
    return graph.node("HardSwish", {x});
  }
};

/// The closing list: a new function is its functor above and its name here.
using Function = std::variant<Relu, LeakyRelu, Sigmoid, Tanh, Silu, Gelu, GeluTanh, Elu, Softplus, Mish,
                              Relu6, HardTanh, HardSigmoid, HardSwish>;

}  // namespace trainer::elementwise
