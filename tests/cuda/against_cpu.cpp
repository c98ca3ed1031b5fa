// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <utility>
#include "tests/catch.h"

#include "core/base/error.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/gated.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/unary.h"
#include "cpu/backend.h"
#include "tests/cuda/two_backends.h"

namespace trainer {
namespace {

/// Element by element both compute the same formula without contraction; only the last bit may differ.
constexpr double kElementwise = 1e-6;
/// Sums of some hundred products, in another order.
constexpr double kMatrix = 1e-5;

// Below, at and above a warp and a block; then more than one round of the largest grid.
const std::vector<int64_t> kSizes{1, 31, 33, 256, 70001};
constexpr int64_t kBeyondTheGrid = int64_t{65535} * 256 + 1001;

void compare(const Backend& gpu, const OneOperation& operation, float scale, double tolerance) {
  const auto cpu = make_cpu_backend(0);
  for (const uint64_t seed : {1, 2}) {
    const double found = distance(run_on(gpu, operation, seed, scale), run_on(cpu, operation, seed, scale));
    CAPTURE(seed, to_string(operation.inputs[0]), found);
    CHECK(found <= tolerance);
  }
}

template <size_t... Index>
std::vector<elementwise::Function> make_functions(std::index_sequence<Index...>) {
  return {std::variant_alternative_t<Index, elementwise::Function>{}...};
}

/// One of each, so that a new function is compared automatically.
std::vector<elementwise::Function> all_functions() {
  return make_functions(std::make_index_sequence<std::variant_size_v<elementwise::Function>>{});
}

OneOperation linear(const Shape& x, int64_t outputs, bool bias, bool relu) {
  OneOperation operation{.inputs = {x, {outputs, x.back()}}, .emit = {}};
  if (bias) operation.inputs.push_back({outputs});
  operation.emit = [bias, relu](Builder& build, const std::vector<TensorId>& in) {
    return build.emit<Linear>({in[0], in[1], bias ? in[2] : kNone},
                              relu ? LinearFunction::relu : LinearFunction::none);
  };
  return operation;
}

/// In bf16, as cuBLASLt computes gelu_tanh.
OneOperation linear_with_gelu() {
  return {.inputs = {{32, 40}, {24, 40}, {24}}, .emit = [](Builder& build, const auto& in) {
            std::vector<TensorId> low;
            for (const TensorId id : in) low.push_back(build.emit<Cast>({id}, DType::bf16));
            return build.emit<Cast>(
                {build.emit_all(std::make_shared<Linear>(LinearFunction::gelu_tanh), low)[0]}, DType::f32);
          }};
}

struct ConvolutionCase {
  Conv2dGeometry geometry;
  Shape x, w;
  Shape y() const {
    const Size2d out = geometry.output({x[2], x[3]});
    return {x[0], w[0], out[0], out[1]};
  }
};

/// Odd dimensions; strides, dilation, groups, depthwise; one channel; dimensions that a stride does not
/// divide.
std::vector<ConvolutionCase> convolution_cases() {
  return {
      {{.kernel = {3, 3}, .padding = {1, 1}}, {2, 16, 9, 11}, {8, 16, 3, 3}},
      {{.kernel = {1, 1}}, {3, 31, 7, 5}, {33, 31, 1, 1}},
      {{.kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}}, {2, 3, 33, 31}, {16, 3, 7, 7}},
      {{.kernel = {5, 5}, .padding = {2, 2}}, {5, 1, 28, 28}, {6, 1, 5, 5}},
      {{.kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 0}, .dilation = {2, 1}},
       {2, 5, 17, 13},
       {7, 5, 3, 2}},
      {{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .groups = 24}, {2, 24, 15, 14}, {24, 1, 3, 3}},
      {{.kernel = {3, 3}, .padding = {1, 1}, .groups = 3}, {2, 12, 9, 9}, {9, 4, 3, 3}}};
}

OneOperation forward(const ConvolutionCase& one, bool bias, bool relu) {
  OneOperation operation{.inputs = {one.x, one.w}, .emit = {}};
  if (bias) operation.inputs.push_back({one.w[0]});
  operation.emit = [=](Builder& build, const std::vector<TensorId>& in) {
    return build.emit<Conv2d>({in[0], in[1], bias ? in[2] : kNone}, one.geometry, relu);
  };
  return operation;
}

OneOperation backward_data(const ConvolutionCase& one) {
  return {.inputs = {one.y(), one.w}, .emit = [=](Builder& build, const std::vector<TensorId>& in) {
            return build.emit<Conv2dBackwardData>({in[0], in[1]}, one.geometry, one.x);
          }};
}

/// Output 0 is the weights' gradient, 1 the bias's.
OneOperation backward_weights(const ConvolutionCase& one, size_t output) {
  return {.inputs = {one.x, one.y()}, .emit = [=](Builder& build, const std::vector<TensorId>& in) {
            const auto op = std::make_shared<Conv2dBackwardWeights>(one.geometry, one.w, true);
            return build.emit_all(op, {in[0], in[1]})[output];
          }};
}

}  // namespace

TEST_CASE("element-wise functions and their gradients agree with the CPU's") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  for (const elementwise::Function& f : all_functions()) {
    CAPTURE(function_name(f));
    for (const int64_t size : kSizes) {
      const OneOperation forward{.inputs = {{size}}, .emit = [&](Builder& build, const auto& in) {
                                   return build.emit<Unary>({in[0]}, f);
                                 }};
      const OneOperation backward{.inputs = {{size}, {size}}, .emit = [&](Builder& build, const auto& in) {
                                    return build.emit<UnaryBackward>({in[0], in[1]}, f);
                                  }};
      compare(*gpu, forward, 6, kElementwise);
      compare(*gpu, backward, 6, kElementwise);
    }
  }
}

TEST_CASE("sums and products agree with the CPU's, beyond the largest grid too") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  std::vector<int64_t> sizes = kSizes;
  sizes.push_back(kBeyondTheGrid);
  for (const auto kind : {Binary::Kind::add, Binary::Kind::mul}) {
    for (const int64_t size : sizes) {
      const OneOperation operation{.inputs = {{size}, {size}}, .emit = [&](Builder& build, const auto& in) {
                                     return build.emit<Binary>({in[0], in[1]}, kind);
                                   }};
      compare(*gpu, operation, 2, 0);
    }
  }
}

TEST_CASE("gates and their gradients agree with the CPU's") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  for (const elementwise::Function& f : all_functions()) {
    CAPTURE(function_name(f));
    for (const int64_t size : kSizes) {
      const OneOperation forward{.inputs = {{size}, {size}}, .emit = [&](Builder& build, const auto& in) {
                                   return build.emit<Gated>({in[0], in[1]}, f);
                                 }};
      compare(*gpu, forward, 6, kElementwise);
      for (const size_t output : {GatedBackward::kDgate, GatedBackward::kDx}) {
        const auto backward = std::make_shared<GatedBackward>(f);
        const OneOperation operation{.inputs = {{size}, {size}, {size}},
                                     .emit = [&](Builder& build, const auto& in) {
                                       return build.emit_all(backward, {in[0], in[1], in[2]})[output];
                                     }};
        compare(*gpu, operation, 6, kElementwise);
      }
    }
  }
}

TEST_CASE("there may be more images to average than a grid has layers") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  const OneOperation average{.inputs = {{65'535 + 3, 1, 2, 1}}, .emit = [](Builder& build, const auto& in) {
                               return build.emit<AvgPool2d>({in[0]}, Conv2dGeometry{.kernel = {2, 1}});
                             }};
  compare(*gpu, average, 1, kElementwise);
}

TEST_CASE("matrix products agree with the CPU's, with bias and relu and without") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  for (const bool bias : {false, true}) {
    for (const bool relu : {false, true}) {
      CAPTURE(bias, relu);
      compare(*gpu, linear({1, 1}, 1, bias, relu), 1, kMatrix);
      compare(*gpu, linear({31, 33}, 10, bias, relu), 1, kMatrix);
      compare(*gpu, linear({128, 784}, 256, bias, relu), 1, kMatrix);
      compare(*gpu, linear({3, 31, 33}, 10, bias, relu), 1, kMatrix);
    }
  }
}

TEST_CASE("convolutions and both their gradients agree with the CPU's at odd sizes") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  for (const ConvolutionCase& one : convolution_cases()) {
    CAPTURE(to_string(one.x), to_string(one.w), attributes_text(Conv2d(one.geometry)));
    compare(*gpu, forward(one, false, false), 1, kMatrix);
    compare(*gpu, forward(one, true, true), 1, kMatrix);
    compare(*gpu, backward_data(one), 1, kMatrix);
    compare(*gpu, backward_weights(one, 0), 1, kMatrix);
    compare(*gpu, backward_weights(one, 1), 1, kMatrix);
  }
}

TEST_CASE(
    "a relu or gelu_tanh in the same kernel as a product keeps what is no number: a loss scale hangs on it") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const OneOperation& operation :
       {forward(convolution_cases()[0], true, true), linear({31, 33}, 10, true, true),
        linear({31, 33}, 10, false, true), linear_with_gelu()}) {
    for (const float value : run_on(*gpu, operation, 1, nan)) REQUIRE(std::isnan(value));
  }
}

TEST_CASE("gradients of matrix products agree with the CPU's") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  for (const Shape& x : {Shape{1, 1}, {31, 33}, {128, 784}, {3, 31, 33}}) {
    const int64_t outputs = x.back() / 3 + 1;
    const Shape w{outputs, x.back()};
    Shape dy = x;
    dy.back() = outputs;
    CAPTURE(to_string(x), to_string(w));
    compare(*gpu,
            {.inputs = {dy, w},
             .emit =
                 [&](Builder& build, const auto& in) {
                   return build.emit<LinearBackwardData>({in[0], in[1]}, x);
                 }},
            1, kMatrix);
    for (const size_t output : {0, 1}) {
      compare(
          *gpu,
          {.inputs = {x, dy},
           .emit =
               [&](Builder& build, const auto& in) {
                 return build.emit_all(std::make_shared<LinearBackwardWeights>(true), {in[0], in[1]})[output];
               }},
          1, kMatrix);
    }
  }
}

}  // namespace trainer
