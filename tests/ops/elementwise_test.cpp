// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <limits>

#include "tests/catch.h"

#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/gated.h"
#include "core/graph/ops/unary.h"
#include "tests/ops/functions.h"
#include "tests/ops/harness.h"

using namespace trainer;

TEST_CASE("every element-wise function has the right values and gradient") {
  for_each_functor([](auto functor) {
    for (const Shape& shape :
         {Shape{1, 7}, Shape{3, 31}, Shape{2, 17, 5, 3}, Shape{1, 33, 1, 1}, Shape{4, 5000}}) {
      check_program(fmt::format("{} of {}", functor.kName, to_string(shape)), [&](Sketch& sketch) {
        const TensorId x = sketch.parameter("x", shape, Values::off_zero);
        const TensorId y = sketch.build().emit<Unary>({x}, elementwise::Function(functor));
        sketch.output("y", y);
        sketch.loss(y);
      });
    }
  });
}

TEST_CASE("element-wise functions follow a convolution's layout, padding included") {
  for_each_functor([](auto functor) {
    for (int64_t channels : {int64_t{1}, int64_t{17}}) {
      check_program(fmt::format("{} between convolutions", functor.kName), [&](Sketch& sketch) {
        Builder& build = sketch.build();
        const Conv2dGeometry geometry{.kernel = {3, 3}, .padding = {1, 1}};
        const TensorId x = sketch.input("x", {2, 3, 5, 6});
        const TensorId w1 = sketch.parameter("w1", {channels, 3, 3, 3});
        const TensorId w2 = sketch.parameter("w2", {3, channels, 3, 3});
        const TensorId first = build.emit<Conv2d>({x, w1, kNone}, geometry);
        const TensorId middle = build.emit<Unary>({first}, elementwise::Function(functor));
        sketch.loss(build.emit<Conv2d>({middle, w2, kNone}, geometry));
      });
    }
  });
}

TEST_CASE("every function may be a gate, also of its own input") {
  for_each_functor([](auto functor) {
    const elementwise::Function f = functor;
    for (const Shape& shape : {Shape{1, 7}, Shape{3, 31}, Shape{2, 17, 3, 3}, Shape{2, 3000}}) {
      check_program(fmt::format("{} gate {}", functor.kName, to_string(shape)), [&](Sketch& sketch) {
        const TensorId gate = sketch.parameter("gate", shape, Values::off_zero),
                       x = sketch.parameter("x", shape);
        sketch.loss(sketch.build().emit<Gated>({gate, x}, f));
      });
      check_program(
          fmt::format("{} gate of constants {}", functor.kName, to_string(shape)), [&](Sketch& sketch) {
            const TensorId x = sketch.parameter("x", shape, Values::off_zero);
            const TensorId own = sketch.build().emit<Gated>({x, x}, f);
            const TensorId open = sketch.build().emit<Gated>({own, sketch.input("given", shape)}, f);
            sketch.loss(sketch.build().emit<Gated>({sketch.input("gate", shape), open}, f));
          });
    }
  });
}

TEST_CASE("a sum that ends with a relu, clamped or not") {
  for (const Shape& shape : {Shape{1, 3}, Shape{3, 31}, Shape{2, 17, 3, 3}}) {
    for (const double ceiling : {std::numeric_limits<double>::infinity(), 6.0}) {
      check_program("sum with relu", [&](Sketch& sketch) {
        const TensorId a = sketch.parameter("a", shape, Values::off_zero), b = sketch.input("b", shape);
        for (float& value : sketch.values["b"]) value = value < 0 ? 0.0f : 16.0f;  // far from both corners
        sketch.loss(sketch.build().emit<Binary>({a, b}, Binary::Kind::add, true, ceiling));
      });
    }
  }
}

TEST_CASE("add and mul, also of a tensor with itself") {
  for (const Shape& shape : {Shape{1, 3}, Shape{3, 31}, Shape{2, 17, 3, 3}, Shape{2, 10000}}) {
    for (const auto kind : {Binary::Kind::add, Binary::Kind::mul}) {
      check_program("binary", [&](Sketch& sketch) {
        const TensorId a = sketch.parameter("a", shape), b = sketch.parameter("b", shape);
        const TensorId y = sketch.build().emit<Binary>({a, b}, kind);
        sketch.output("y", y);
        sketch.loss(y);
      });
      check_program("binary with itself", [&](Sketch& sketch) {
        const TensorId a = sketch.parameter("a", shape);
        const TensorId square = sketch.build().emit<Binary>({a, a}, kind);
        const TensorId more = sketch.build().emit<Binary>({square, a}, Binary::Kind::add);
        sketch.loss(sketch.build().emit<Binary>({more, more}, kind));
      });
    }
  }
}
