// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/rearrange.h"

#include <fmt/format.h>

#include "core/graph/ops/concat.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/scale_features.h"
#include "tests/catch.h"
#include "tests/ops/harness.h"

using namespace trainer;
using Catch::Matchers::ContainsSubstring;

namespace {

/// An operation of one parameter.
template <class Op, class... Arguments>
void check_of_one(const Shape& shape, Arguments... arguments) {
  check_program(fmt::format("{} {}", Op(arguments...).name(), to_string(shape)), [&](Sketch& sketch) {
    const TensorId y = sketch.build().emit<Op>({sketch.parameter("x", shape)}, arguments...);
    sketch.output("y", y);
    sketch.loss(y);
  });
}

}  // namespace

TEST_CASE("zeros are added around, and ranges taken, along each axis") {
  for (const int64_t axis : {1, 2}) {
    for (const Shape& shape : {Shape{1, 3, 2}, Shape{3, 31, 33}}) {
      check_of_one<Pad>(shape, axis, int64_t{1}, int64_t{0});
      check_of_one<Pad>(shape, axis, int64_t{0}, int64_t{33});
      check_of_one<Slice>(shape, axis, int64_t{1}, int64_t{1});
    }
  }
  check_of_one<Pad>({2, 31}, int64_t{1}, int64_t{2}, int64_t{3});
  check_of_one<Slice>({2, 31}, int64_t{1}, int64_t{5}, int64_t{20});
}

TEST_CASE("dimensions change places") {
  struct Case {
    Shape x;
    int64_t first, second;
  };
  for (const Case& c : {Case{{1, 1, 2}, 1, 2},
                        {{3, 31, 33}, 1, 2},
                        {{2, 65, 1}, 1, 2},
                        {{2, 3, 5, 7}, 1, 2},
                        {{2, 3, 5, 7}, 1, 3},
                        {{2, 33, 5, 31}, 2, 3},
                        {{2, 3, 4, 5, 6}, 1, 3}}) {
    check_of_one<Transpose>(c.x, c.first, c.second);
  }
}

TEST_CASE("one sample is repeated, and its gradient summed over samples") {
  for (const int64_t samples : {1, 31, 33}) {
    check_of_one<RepeatSamples>({1, 1, 17}, samples);
    check_of_one<RepeatSamples>({1, 3, 31}, samples);
  }
}

TEST_CASE("features are scaled by a factor each") {
  for (const Shape& shape : {Shape{1, 2}, Shape{31, 33}, Shape{3, 31, 100}, Shape{2, 300, 65}}) {
    check_program("scale_features " + to_string(shape), [&](Sketch& sketch) {
      const TensorId x = sketch.parameter("x", shape), s = sketch.parameter("s", {shape.back()});
      const TensorId y = sketch.build().emit<ScaleFeatures>({x, s});
      sketch.output("y", y);
      sketch.loss(y);
    });
  }
}

TEST_CASE("patches of an image become tokens") {
  check_program("patches", [](Sketch& sketch) {
    Builder& build = sketch.build();
    const TensorId x = sketch.input("x", {2, 3, 8, 8}), w = sketch.parameter("w", {17, 3, 4, 4});
    TensorId y = build.emit<Conv2d>({x, w, kNone}, Conv2dGeometry{.kernel = {4, 4}, .stride = {4, 4}});
    y = build.emit<Transpose>({build.emit<Reshape>({y}, Shape{2, 17, 4})}, 1, 2);
    const TensorId token = build.emit<RepeatSamples>({sketch.parameter("token", {1, 1, 17})}, 2);
    sketch.loss(build.emit<Concat>({token, y}, 1));
  });
}

TEST_CASE("what does not fit is refused") {
  Sketch sketch(1);
  const TensorId x = sketch.input("x", {2, 3, 4});
  CHECK_THROWS_WITH(sketch.build().emit<Transpose>({x}, 1, 3),
                    ContainsSubstring("dimensions 1 and 3 cannot be exchanged in a shape of 3"));
  CHECK_THROWS_WITH(sketch.build().emit<Pad>({x}, 3, 1, 1), ContainsSubstring("axis 3 is outside 1 to 2"));
  CHECK_THROWS_WITH(sketch.build().emit<Slice>({x}, 1, 2, 2),
                    ContainsSubstring("[2, 4) is no part of the 3 indices along axis 1"));
  CHECK_THROWS_WITH(sketch.build().emit<ScaleFeatures>({x, sketch.input("s", {3})}),
                    ContainsSubstring("factors of shape 3 met 4 features"));
}
