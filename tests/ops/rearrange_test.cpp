// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/rearrange.h"

#include <fmt/format.h>

#include "core/graph/ops/binary.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/scale_features.h"
#include "core/graph/ops/tokens.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/ops/harness.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

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
    y = build.emit<ImagesToTokens>({y});
    const TensorId token = build.emit<RepeatSamples>({sketch.parameter("token", {1, 1, 17})}, 2);
    sketch.loss(build.emit<Concat>({token, y}, 1));
  });
}

TEST_CASE("pixels become tokens, and tokens pixels") {
  for (const Shape& x :
       {Shape{1, 2, 1, 1}, {3, 1, 5, 7}, {2, 17, 1, 1}, {2, 3, 1, 5}, {2, 16, 7, 1}, {3, 33, 4, 5}}) {
    check_of_one<ImagesToTokens>(x);
    check_of_one<TokensToImages>({x[0], x[2] * x[3], x[1]}, Size2d{x[2], x[3]});
  }
}

TEST_CASE("tokens between convolutions lie in the images' memory") {
  for (const int64_t channels : {3, 16, 33}) {
    check_program(fmt::format("{} channels", channels), [&](Sketch& sketch) {
      Builder& build = sketch.build();
      const TensorId x = sketch.parameter("x", {2, channels, 5, 4}),
                     w = sketch.parameter("w", {channels, 1, 3, 3}), s = sketch.parameter("s", {channels});
      const Conv2dGeometry depthwise{.kernel = {3, 3}, .padding = {1, 1}, .groups = channels};
      const TensorId tokens = build.emit<ImagesToTokens>({build.emit<Conv2d>({x, w, kNone}, depthwise)});
      const TensorId scaled = build.emit<ScaleFeatures>({tokens, s});
      const TensorId back = build.emit<TokensToImages>({scaled}, Size2d{5, 4});
      const TensorId sum = build.emit<Binary>({back, x}, Binary::Kind::add);
      sketch.output("tokens", tokens);
      sketch.output("sum", sum);
      sketch.loss(build.emit<Conv2d>({sum, w, kNone}, depthwise));
    });
  }
}

TEST_CASE("each token has the channels of its pixel") {
  const Shape shape{2, 3, 4, 5};
  Sketch sketch(1);
  const TensorId x = sketch.input("x", shape);
  sketch.output("tokens", sketch.build().emit<ImagesToTokens>({x}));
  sketch.output("images", sketch.build().emit<TokensToImages>({sketch.input("y", {2, 20, 3})}, Size2d{4, 5}));
  for (const bool on_cpu : {true, false}) {
    const Backend backend = on_cpu ? make_cpu_backend(1) : make_reference_backend();
    INFO(backend.planner->name());
    Session session(sketch.program, backend);
    session.set(sketch.values);
    const std::string& entry = sketch.program.entries[0].name;
    session.run(entry);
    const auto tokens = session.output(entry, "tokens"), images = session.output(entry, "images");
    const std::vector<float>&pixels = sketch.values.at("x"), &rows = sketch.values.at("y");
    for (size_t n = 0; n < 2; ++n) {
      for (size_t c = 0; c < 3; ++c) {
        for (size_t p = 0; p < 20; ++p) {
          CHECK(tokens[(n * 20 + p) * 3 + c] == double{pixels[(n * 3 + c) * 20 + p]});
          CHECK(images[(n * 3 + c) * 20 + p] == double{rows[(n * 20 + p) * 3 + c]});
        }
      }
    }
  }
}

TEST_CASE("what does not fit is refused") {
  Sketch sketch(1);
  const TensorId x = sketch.input("x", {2, 3, 4});
  CHECK_THROWS_WITH(sketch.build().emit<Transpose>({x}, 1, 3),
                    ContainsSubstring("dimensions 1 and 3 cannot be exchanged in a shape of 3"));
  CHECK_THROWS_WITH(sketch.build().emit<Pad>({x}, 3, 1, 1), ContainsSubstring("axis 3 is outside 1 to 2"));
  CHECK_THROWS_WITH(sketch.build().emit<Slice>({x}, 1, 2, 2),
                    ContainsSubstring("[2, 4) is not part of the 3 indices along axis 1"));
  CHECK_THROWS_WITH(sketch.build().emit<ImagesToTokens>({x}),
                    ContainsSubstring("expected images (N, C, H, W), got shape 2x3x4"));
  CHECK_THROWS_WITH(sketch.build().emit<TokensToImages>({x}, Size2d{2, 2}),
                    ContainsSubstring("expected 2 x 2 tokens (N, H * W, C), got shape 2x3x4"));
  CHECK_THROWS_WITH(sketch.build().emit<ScaleFeatures>({x, sketch.input("s", {3})}),
                    ContainsSubstring("factors of shape 3 met 4 features"));
}
