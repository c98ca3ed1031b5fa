// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include "tests/catch.h"

#include "core/engine/backend_library.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/two_backends.h"

namespace trainer {
namespace {

struct Product {
  Shape x, w;
  std::optional<Conv2dGeometry> geometry;  ///< absent: a matrix product
  bool transposed = false;                 ///< its weights are (features, outputs)
};

/// Channels that tensor cores take as they are, and others; strides, groups, depthwise.
std::vector<Product> products() {
  return {{{8, 64, 14, 14}, {96, 64, 3, 3}, Conv2dGeometry{.kernel = {3, 3}, .padding = {1, 1}}},
          {{4, 64, 9, 7}, {128, 64, 1, 1}, Conv2dGeometry{.kernel = {1, 1}, .stride = {2, 2}}},
          {{3, 31, 7, 5}, {33, 31, 1, 1}, Conv2dGeometry{.kernel = {1, 1}}},
          {{5, 1, 28, 28}, {6, 1, 5, 5}, Conv2dGeometry{.kernel = {5, 5}, .padding = {2, 2}}},
          {{2, 24, 15, 14},
           {24, 1, 3, 3},
           Conv2dGeometry{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .groups = 24}},
          {{128, 784}, {256, 784}, std::nullopt},
          {{31, 33}, {10, 33}, std::nullopt},
          {{4, 7, 33}, {10, 33}, std::nullopt},
          {{4, 7, 33}, {33, 10}, std::nullopt, true},
          {{30, 64}, {64, 10}, std::nullopt, true}};
}

/// The product of factors in `low` and, through casts, the gradients of all three inputs.
Draft draft_of(const Product& product, DType low, bool bias) {
  return [=](Sketch& sketch) {
    const auto in_low = [&](const char* name, const Shape& shape) {
      return sketch.build().emit<Cast>({sketch.parameter(name, shape)}, low);
    };
    const TensorId x = in_low("x", product.x), w = in_low("w", product.w);
    const TensorId b = bias ? in_low("b", {product.w[product.transposed ? 1 : 0]}) : kNone;
    const TensorId y = product.geometry ? sketch.build().emit<Conv2d>({x, w, b}, *product.geometry)
                                        : sketch.build().emit<Linear>({x, w, b}, false, product.transposed);
    const TensorId wide = sketch.build().emit<Cast>({y}, DType::f32);
    sketch.output("y", wide);
    sketch.loss(wide);
  };
}

void check_products(const Backend& gpu) {
  for (const Product& product : products()) {
    for (const DType low : {DType::f16, DType::bf16}) {
      for (const bool bias : {false, true}) {
        INFO(to_string(product.x) << " by " << to_string(product.w) << " in " << to_string(low)
                                  << (bias ? " with bias" : ""));
        check_backend(gpu, draft_of(product, low, bias), 1, narrow_tolerances(low));
      }
    }
  }
}

}  // namespace

TEST_CASE("products of f16 and bf16 and their gradients, those of weights in f32, agree with the reference") {
  const auto gpu = cuda_or_skip();
  if (gpu) check_products(*gpu);
}

TEST_CASE("so do those that a measurement chose, which may convert gradients in cuDNN's own kernel") {
  if (!cuda_or_skip()) return;
  Tuning tuning;
  const auto gpu = load_backend("cuda", BackendRequest{.tuning = &tuning});
  check_products(gpu);
}

}  // namespace trainer
