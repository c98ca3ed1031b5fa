// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/unary.h"
#include "cpu/backend.h"
#include "tests/cuda/two_backends.h"

namespace trainer {
namespace {

/// Element by element both compute the same formula without contraction; what is left is the last bit.
constexpr double kElementwise = 1e-6;
/// Sums of some hundred products, in another order.
constexpr double kMatrix = 1e-5;

// Below, at and above a warp and a block; then more than one round of the largest grid.
const std::vector<int64_t> kSizes{1, 31, 33, 256, 70001};
constexpr int64_t kBeyondTheGrid = int64_t{65535} * 256 + 1001;

void compare(Backend& gpu, const OneOperation& operation, float scale, double tolerance) {
  const auto cpu = make_cpu_backend(0);
  for (const uint64_t seed : {1, 2}) {
    const double found = distance(run_on(gpu, operation, seed, scale), run_on(*cpu, operation, seed, scale));
    CAPTURE(seed, to_string(operation.inputs[0]), found);
    CHECK(found <= tolerance);
  }
}

template <size_t... Index>
std::vector<elementwise::Function> make_functions(std::index_sequence<Index...>) {
  return {std::variant_alternative_t<Index, elementwise::Function>{}...};
}

/// One of each, so that a new function is compared without a word here.
std::vector<elementwise::Function> all_functions() {
  return make_functions(std::make_index_sequence<std::variant_size_v<elementwise::Function>>{});
}

OneOperation linear(int64_t batch, int64_t features, int64_t outputs, bool bias, bool relu) {
  OneOperation operation{.inputs = {{batch, features}, {outputs, features}}, .emit = {}};
  if (bias) operation.inputs.push_back({outputs});
  operation.emit = [bias, relu](Builder& build, const std::vector<TensorId>& in) {
    return build.emit<Linear>({in[0], in[1], bias ? in[2] : kNone}, relu);
  };
  return operation;
}

}  // namespace

TEST_CASE("element-wise functions and their gradients agree with the CPU's") {
  const auto gpu = cuda_or_skip();
  if (gpu == nullptr) return;
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
  if (gpu == nullptr) return;
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

TEST_CASE("matrix products agree with the CPU's, with bias and relu and without") {
  const auto gpu = cuda_or_skip();
  if (gpu == nullptr) return;
  for (const bool bias : {false, true}) {
    for (const bool relu : {false, true}) {
      CAPTURE(bias, relu);
      compare(*gpu, linear(1, 1, 1, bias, relu), 1, kMatrix);
      compare(*gpu, linear(31, 33, 10, bias, relu), 1, kMatrix);
      compare(*gpu, linear(128, 784, 256, bias, relu), 1, kMatrix);
    }
  }
}

TEST_CASE("what the GPU cannot run is refused when the plan is made") {
  const auto gpu = cuda_or_skip();
  if (gpu == nullptr) return;
  const OneOperation convolution{.inputs = {{1, 1, 4, 4}, {1, 1, 1, 1}},
                                 .emit = [](Builder& build, const auto& in) {
                                   return build.emit<Conv2d>({in[0], in[1], kNone}, Conv2dGeometry{});
                                 }};
  CHECK_THROWS_WITH(run_on(*gpu, convolution, 1, 1),
                    Catch::Contains("conv2d cannot run on cuda: this version has no GPU kernel for it"));
}

}  // namespace trainer
