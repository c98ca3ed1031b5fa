// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/scale_pixels.h"

#include "tests/catch.h"

#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "tests/ops/harness.h"

using namespace trainer;

namespace {

/// Images as numbers of a type, and a product of them so that there is something to learn.
TensorId scaled(Sketch& sketch, const Shape& shape, int64_t channels = 0) {
  const TensorId scale = sketch.input("scale", {shape[1]}), offset = sketch.input("offset", {shape[1]});
  for (float& value : sketch.values["scale"]) value /= 64;
  return sketch.build().emit<ScalePixels>({sketch.pixels("x", shape), scale, offset}, DType::f32, channels);
}

}  // namespace

TEST_CASE("pixels become numbers, channel by channel, before a flattening") {
  for (const Shape& shape : {Shape{1, 1, 1, 2}, Shape{2, 1, 5, 7}, Shape{3, 3, 31, 33}, Shape{2, 33, 3, 1}}) {
    check_program(to_string(shape), [&](Sketch& sketch) {
      const TensorId y = scaled(sketch, shape);
      sketch.output("y", y);
      sketch.loss(sketch.build().emit<Binary>({y, sketch.parameter("w", shape)}, Binary::Kind::mul));
    });
  }
}

TEST_CASE("pixels are written in the layout of the convolution that reads them") {
  for (const int64_t channels : {1, 3, 16, 17, 40}) {
    check_program("convolution", [&](Sketch& sketch) {
      const TensorId w = sketch.parameter("w", {17, channels, 3, 3});
      const TensorId y = scaled(sketch, {2, channels, 9, 7});
      sketch.loss(sketch.build().emit<Conv2d>({y, w, kNone}, Conv2dGeometry{.kernel = {3, 3}}));
    });
  }
}

TEST_CASE("channels beyond those of the pixels are zeros, in any layout") {
  for (const int64_t channels : {4, 8, 17, 32}) {
    for (const Shape& shape : {Shape{1, 3, 5, 7}, Shape{3, 1, 9, 4}}) {
      check_program(std::to_string(channels) + " of " + to_string(shape), [&](Sketch& sketch) {
        const TensorId w = sketch.parameter("w", {5, channels, 3, 3}), y = scaled(sketch, shape, channels);
        sketch.output("y", y);
        sketch.loss(sketch.build().emit<Conv2d>({y, w, kNone}, Conv2dGeometry{.kernel = {3, 3}}));
      });
    }
  }
}

TEST_CASE("what are no images of bytes is refused") {
  Sketch sketch(1);
  const TensorId one = sketch.input("one", {3}), two = sketch.input("two", {2});
  const TensorId floats = sketch.input("floats", {2, 3, 4, 4}), flat = sketch.pixels("flat", {2, 48}),
                 x = sketch.pixels("x", {2, 3, 4, 4});
  Builder& build = sketch.build();
  CHECK_THROWS_WITH(
      build.emit<ScalePixels>({floats, one, one}, DType::f32),
      Catch::Matchers::ContainsSubstring("expected images (N, C, H, W) of u8, got 2x3x4x4 of f32"));
  CHECK_THROWS_WITH(build.emit<ScalePixels>({flat, one, one}, DType::f32),
                    Catch::Matchers::ContainsSubstring("expected images (N, C, H, W) of u8, got 2x48 of u8"));
  CHECK_THROWS_WITH(build.emit<ScalePixels>({x, one, two}, DType::f32),
                    Catch::Matchers::ContainsSubstring("a scale and an offset for each channel"));
  CHECK_THROWS_WITH(build.emit<ScalePixels>({x, one, one}, DType::f32, 3),
                    Catch::Matchers::ContainsSubstring("expected more channels than the 3 of the images"));
}
