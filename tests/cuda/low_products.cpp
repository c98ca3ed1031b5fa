// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <optional>
#include "tests/catch.h"

#include "core/engine/backend_library.h"
#include "core/graph/ops/binary.h"
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

/// Channels that tensor cores accept as they are, and others; strides, groups, depthwise.
std::vector<Product> products() {
  return {{{3, 64, 11, 9}, {96, 64, 3, 3}, Conv2dGeometry{.kernel = {3, 3}, .padding = {1, 1}}},
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
    const TensorId y = product.geometry
                           ? sketch.build().emit<Conv2d>({x, w, b}, *product.geometry)
                           : sketch.build().emit<Linear>({x, w, b}, LinearFunction::none, product.transposed);
    const TensorId wide = sketch.build().emit<Cast>({y}, DType::f32);
    sketch.output("y", wide);
    sketch.loss(wide);
  };
}

/// gelu_tanh after a product, with or without its kept input, and its gradient after another.
Draft gelu_draft(DType low, bool bias, bool transposed, bool keeps) {
  return [=](Sketch& sketch) {
    const auto in_low = [&](const char* name, const Shape& shape) {
      return sketch.build().emit<Cast>({sketch.input(name, shape)}, low);
    };
    const auto output = [&](const char* name, TensorId id) {
      sketch.output(name, sketch.build().emit<Cast>({id}, DType::f32));
    };
    const Shape of_w = transposed ? Shape{40, 24} : Shape{24, 40},
                of_v = transposed ? Shape{24, 16} : Shape{16, 24};
    const TensorId x = in_low("x", {4, 7, 40}), w = in_low("w", of_w), v = in_low("v", of_v);
    const auto linear = std::make_shared<Linear>(LinearFunction::gelu_tanh, transposed);
    const std::vector<TensorId> made =
        sketch.build().emit_all(linear, {x, w, bias ? in_low("b", {24}) : kNone});
    output("y", made[0]);
    sketch.loss(sketch.parameter("p", {3, 2}));
    if (!keeps) return;
    output("u", made[1]);
    const TensorId dy = in_low("dy", {4, 7, 16});
    output("du",
           sketch.build().emit<LinearBackwardData>({dy, v, made[1]}, Shape{4, 7, 24}, transposed, true));
  };
}

void check_gelus(const Backend& gpu) {
  for (const DType low : {DType::f16, DType::bf16}) {
    for (const int choice : {0, 1, 2, 3, 4, 5, 6, 7}) {
      const bool bias = (choice & 1) != 0, transposed = (choice & 2) != 0, keeps = (choice & 4) != 0;
      INFO(to_string(low) << (bias ? " bias" : "") << (transposed ? " transposed" : "")
                          << (keeps ? " kept" : ""));
      check_backend(gpu, gelu_draft(low, bias, transposed, keeps), 1, narrow_tolerances(low));
    }
  }
}

/// relu of a product, perhaps with something added, with its mask or without; and the gradient after it, to
/// which another is added. Sums stay away from zero, if rounding might decide; their signs differ by row
/// and by feature.
Draft relu_draft(DType low, bool bias, bool transposed, bool adds, bool keeps) {
  return [=](Sketch& sketch) {
    Builder& build = sketch.build();
    const auto in_low = [&](const char* name, const Shape& shape) {
      return build.emit<Cast>({sketch.input(name, shape)}, low);
    };
    const auto output = [&](const char* name, TensorId id) {
      sketch.output(name, build.emit<Cast>({id}, DType::f32));
    };
    const Shape of_w = transposed ? Shape{40, 136} : Shape{136, 40},
                of_v = transposed ? Shape{136, 16} : Shape{16, 136};
    const TensorId x = in_low("x", {4, 7, 40}), w = in_low("w", of_w), v = in_low("v", of_v);
    for (size_t i = 0; i < 4 * 7 * 40; ++i)
      sketch.values["x"][i] = std::abs(sketch.values["x"][i]) * (i / 40 % 2 == 0 ? 1.0f : -1.0f);
    for (size_t i = 0; i < 136 * 40; ++i)
      sketch.values["w"][i] =
          std::abs(sketch.values["w"][i]) * ((transposed ? i % 136 : i / 40) % 3 == 0 ? 0.1f : -0.1f);
    std::vector<TensorId> inputs{x, w, bias ? in_low("b", {136}) : kNone};
    if (bias) {
      for (float& value : sketch.values["b"]) value /= 8;
    }
    if (adds) {
      inputs.push_back(in_low("r", {4, 7, 136}));
      for (float& value : sketch.values["r"]) value += value < 0 ? -8.0f : 8.0f;
    }
    const auto made =
        build.emit_all(std::make_shared<Linear>(LinearFunction::relu_with_mask, transposed), inputs);
    output("y", made[0]);
    sketch.loss(sketch.parameter("p", {3, 2}));
    if (!keeps) return;
    inputs = {in_low("dy", {4, 7, 16}), v, made[1]};
    if (adds) inputs.push_back(in_low("other", {4, 7, 136}));
    output("dx", build.emit<LinearBackwardData>(inputs, Shape{4, 7, 136}, transposed, false, 0.25));
  };
}

void check_relus(const Backend& gpu) {
  for (const DType low : {DType::f16, DType::bf16}) {
    for (int choice = 0; choice < 16; ++choice) {
      const bool bias = (choice & 1) != 0, transposed = (choice & 2) != 0, adds = (choice & 4) != 0,
                 keeps = (choice & 8) != 0;
      INFO(to_string(low) << (bias ? " bias" : "") << (transposed ? " transposed" : "")
                          << (adds ? " sum" : "") << (keeps ? " kept" : ""));
      check_backend(gpu, relu_draft(low, bias, transposed, adds, keeps), 1, narrow_tolerances(low));
    }
  }
}

/// The gradient of weights added to a sum so far, which is given or made before; and that of x to one that is
/// given.
Draft sum_draft(DType dtype, bool bias, bool transposed, bool given) {
  return [=](Sketch& sketch) {
    Builder& build = sketch.build();
    const auto in_type = [&](const char* name, const Shape& shape) {
      const TensorId id = sketch.input(name, shape);
      return dtype == DType::f32 ? id : build.emit<Cast>({id}, dtype);
    };
    const TensorId x = in_type("x", {4, 7, 40}), dy = in_type("dy", {4, 7, 24});
    const Shape of_w = transposed ? Shape{40, 24} : Shape{24, 40};
    TensorId sum = sketch.input("sum", of_w);
    if (!given) sum = build.emit<Binary>({sum, sum}, Binary::Kind::add);
    const auto product = std::make_shared<LinearBackwardWeights>(bias, transposed);
    const std::vector<TensorId> made = build.emit_all(product, {x, dy, sum});
    sketch.output("dw", made[0]);
    if (bias) sketch.output("db", made[1]);
    const TensorId dx = build.emit<LinearBackwardData>(
        {dy, in_type("w", of_w), kNone, in_type("dx so far", {4, 7, 40})}, Shape{4, 7, 40}, transposed);
    sketch.output("dx", dtype == DType::f32 ? dx : build.emit<Cast>({dx}, DType::f32));
    sketch.loss(sketch.parameter("p", {3, 2}));
  };
}

void check_sums(const Backend& gpu) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const int choice : {0, 1, 2, 3, 4, 5, 6, 7}) {
      const bool bias = (choice & 1) != 0, transposed = (choice & 2) != 0, given = (choice & 4) != 0;
      INFO(to_string(dtype) << (bias ? " bias" : "") << (transposed ? " transposed" : "")
                            << (given ? " given" : ""));
      check_backend(gpu, sum_draft(dtype, bias, transposed, given), 1,
                    dtype == DType::f32 ? Tolerances{} : narrow_tolerances(dtype));
    }
  }
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

TEST_CASE("gelu_tanh in the kernel of a product, and its gradient in that of another") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  check_gelus(*gpu);
  Tuning tuning;
  check_gelus(load_backend("cuda", BackendRequest{.tuning = &tuning}));
}

TEST_CASE("a relu with its mask in the kernel of a product, and its gradient in that of another") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  check_relus(*gpu);
  Tuning tuning;
  check_relus(load_backend("cuda", BackendRequest{.tuning = &tuning}));
}

TEST_CASE("gradients of weights and of features are added to sums in the products that make them") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  check_sums(*gpu);
  Tuning tuning;
  check_sums(load_backend("cuda", BackendRequest{.tuning = &tuning}));
}

TEST_CASE("a product takes gelu_tanh, or relu with its mask, only where cuBLASLt computes it") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  const Linear linear(GENERATE(LinearFunction::gelu_tanh, LinearFunction::relu_with_mask));
  const auto is_taken = [&](DType dtype, int64_t features) {
    OpContext context{.op = linear,
                      .inputs = {{{4, 8}, dtype}, {{features, 8}, dtype}, {{features}, dtype}},
                      .outputs = {}};
    context.inputs.resize(Linear::kInputs);
    context.outputs = linear.infer(context.inputs);
    return !gpu->planner->why_not(context);
  };
  CHECK(is_taken(DType::bf16, 24));
  CHECK(is_taken(DType::f16, 8));
  CHECK(!is_taken(DType::bf16, 12));
  CHECK(!is_taken(DType::f32, 24));
}

TEST_CASE("convolutions of single pixels by cuBLASLt, where a tuning names it, agree with the reference") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  Tuning tuning;
  const auto check = [&tuning] {
    const Backend timed = load_backend("cuda", BackendRequest{.tuning = &tuning});
    for (const Shape& x : {Shape{3, 31, 7, 5}, Shape{8, 64, 14, 14}, Shape{1, 8, 1, 3}}) {
      const Product product{x, {33, x[1], 1, 1}, Conv2dGeometry{}};
      const auto with_relu = [&](Sketch& sketch) {
        const TensorId w = sketch.input("w", product.w), b = sketch.input("b", {33});
        sketch.output("y", sketch.build().emit<Conv2d>({sketch.input("x", x), w, b}, Conv2dGeometry{}, true));
        sketch.loss(sketch.parameter("p", {3}));
      };
      check_backend(timed, with_relu, 1);
      for (const bool bias : {false, true}) {
        INFO(to_string(x) << (bias ? " with bias" : ""));
        check_backend(timed, draft_of(product, DType::f32, bias), 1);
        for (const DType low : {DType::f16, DType::bf16})
          check_backend(timed, draft_of(product, low, bias), 1, narrow_tolerances(low));
      }
    }
  };
  check();
  REQUIRE(tuning.fastest.size() >= 3 * 3 * 4);  // forward with bias, relu or without, and two gradients
  for (auto& [key, fastest] : tuning.fastest) {
    CHECK(key.find("cuBLASLt") != std::string::npos);
    fastest = "cublaslt";
  }
  const auto named = tuning.fastest;
  check();
  CHECK(tuning.fastest == named);
}

TEST_CASE("so do those that a measurement chose, which may convert gradients in cuDNN's own kernel") {
  if (!cuda_or_skip()) return;
  Tuning tuning;
  const auto gpu = load_backend("cuda", BackendRequest{.tuning = &tuning});
  check_products(gpu);
}

}  // namespace trainer
