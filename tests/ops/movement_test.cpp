// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "core/graph/ops/binary.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/unary.h"
#include "tests/ops/harness.h"

using namespace trainer;

TEST_CASE("concat along each axis") {
  const Shape base{2, 3, 4, 5};
  for (int64_t axis : {1, 2, 3}) {
    check_program(fmt::format("axis {}", axis), [&](Sketch& sketch) {
      std::vector<TensorId> parts;
      for (int64_t extent : {1, 17, 4}) {
        Shape shape = base;
        shape[static_cast<size_t>(axis)] = extent;
        parts.push_back(sketch.parameter(fmt::format("part{}", extent), shape));
      }
      parts.push_back(parts[1]);  // twice: its gradient is a sum
      const TensorId y = sketch.build().emit<Concat>(parts, axis);
      sketch.output("y", y);
      sketch.loss(y);
    });
  }
}

TEST_CASE("concat of features, one input that wants no gradient") {
  check_program("features", [](Sketch& sketch) {
    const TensorId a = sketch.parameter("a", {3, 31}), x = sketch.input("x", {3, 1}),
                   b = sketch.parameter("b", {3, 2});
    sketch.loss(sketch.build().emit<Concat>({a, x, b}, 1));
  });
}

TEST_CASE("concat of what convolutions gave") {
  check_program("branches", [](Sketch& sketch) {
    const TensorId x = sketch.input("x", {2, 3, 6, 5});
    std::vector<TensorId> branches;
    for (int64_t channels : {17, 1, 16}) {
      const TensorId w = sketch.parameter(fmt::format("w{}", channels), {channels, 3, 1, 1});
      branches.push_back(sketch.build().emit<Conv2d>({x, w, kNone}, Conv2dGeometry{}));
    }
    sketch.loss(sketch.build().emit<Concat>(branches, 1));
  });
}

TEST_CASE("reshape is read under both shapes") {
  check_program("views", [](Sketch& sketch) {
    Builder& build = sketch.build();
    const TensorId x = sketch.parameter("x", {2, 17, 3, 2});
    const TensorId tanh = build.emit<Unary>({x}, elementwise::Function(elementwise::Tanh{}));
    const TensorId flat = build.emit<Reshape>({tanh}, Shape{2, 102});
    const TensorId squared = build.emit<Binary>({flat, flat}, Binary::Kind::mul);
    const TensorId back = build.emit<Reshape>({squared}, Shape{2, 17, 3, 2});
    sketch.loss(build.emit<Binary>({back, tanh}, Binary::Kind::add));
  });
}
