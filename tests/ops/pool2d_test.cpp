// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/pool2d.h"

#include <fmt/format.h>

#include "tests/catch.h"

#include "core/graph/ops/conv2d.h"
#include "tests/ops/harness.h"

using namespace trainer;

namespace {

const std::vector<Conv2dGeometry> kWindows = {
    {.kernel = {2, 2}, .stride = {2, 2}},
    {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
    {.kernel = {3, 2}, .stride = {1, 3}, .padding = {1, 0}},
    {.kernel = {3, 3}, .stride = {1, 1}},
    {.kernel = {5, 6}, .stride = {5, 6}},
};
const std::vector<Shape> kPooledImages = {
    {1, 1, 10, 6}, {3, 17, 7, 9}, {2, 33, 6, 6}, {1, 31, 8, 7}, {2, 32, 5, 6}};

template <class Pool>
void check_pool(const char* name) {
  for (const Shape& shape : kPooledImages) {
    for (const Conv2dGeometry& window : kWindows) {
      check_program(fmt::format("{} {} {}", name, to_string(shape), attributes_text(AvgPool2d(window))),
                    [&](Sketch& sketch) {
                      const TensorId x = sketch.parameter("x", shape, Values::distinct);
                      const TensorId y = sketch.build().emit<Pool>({x}, window);
                      sketch.output("y", y);
                      sketch.loss(y);
                    });
    }
  }
}

/// After a 1x1 convolution that only scales, so that values stay apart and the layout is the convolution's.
template <class Pool>
void check_pool_in_blocks(const char* name) {
  for (const Conv2dGeometry& window : kWindows) {
    check_program(fmt::format("{} behind a convolution", name), [&](Sketch& sketch) {
      constexpr int64_t kChannels = 17;
      const TensorId x = sketch.input("x", {2, 1, 7, 6}, Values::distinct);
      const TensorId w = sketch.parameter("w", {kChannels, 1, 1, 1}, Values::off_zero);
      const TensorId v = sketch.parameter("v", {5, kChannels, 1, 1});
      const TensorId scaled = sketch.build().emit<Conv2d>({x, w, kNone}, Conv2dGeometry{});
      const TensorId y = sketch.build().emit<Pool>({scaled}, window);
      sketch.output("y", y);
      sketch.loss(sketch.build().emit<Conv2d>({y, v, kNone}, Conv2dGeometry{}));
    });
  }
}

}  // namespace

TEST_CASE("a pool over the whole image has the right value and gradient, in plain and blocked layouts") {
  for (const Shape& shape : kPooledImages) {
    if (shape[0] * shape[1] == 1) continue;  // a loss over a single value is always zero
    for (const bool blocked : {false, true}) {
      check_program(fmt::format("global {}", to_string(shape)), [&](Sketch& sketch) {
        TensorId x = sketch.parameter("x", shape);
        if (blocked) {
          const TensorId w = sketch.parameter("w", {shape[1], shape[1], 1, 1});
          x = sketch.build().emit<Conv2d>({x, w, kNone}, Conv2dGeometry{});
        }
        const TensorId y =
            sketch.build().emit<AvgPool2d>({x}, Conv2dGeometry{.kernel = {shape[2], shape[3]}});
        sketch.output("y", y);
        sketch.loss(y);
      });
    }
  }
}

TEST_CASE("max pools have the right values and gradients") {
  check_pool<MaxPool2d>("max_pool2d");
}
TEST_CASE("average pools have the right values and gradients") {
  check_pool<AvgPool2d>("avg_pool2d");
}
TEST_CASE("max pools take a convolution's layout") {
  check_pool_in_blocks<MaxPool2d>("max_pool2d");
}
TEST_CASE("average pools take a convolution's layout") {
  check_pool_in_blocks<AvgPool2d>("avg_pool2d");
}

TEST_CASE("a max pool whose places nobody wants gives the same values") {
  for (uint64_t seed : {1, 2, 3}) {
    check_cpu(
        [](Sketch& sketch) {
          const TensorId x = sketch.input("x", {3, 17, 9, 7}, Values::distinct);
          sketch.output("y", sketch.build().emit<MaxPool2d>({x}, kWindows[1]));
          sketch.loss(sketch.parameter("unrelated", {2, 3}));
        },
        seed);
  }
}
