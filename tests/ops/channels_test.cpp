// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/channels.h"

#include <fmt/format.h>

#include "tests/catch.h"

#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/unary.h"
#include "tests/ops/harness.h"

using namespace trainer;

namespace {

const std::vector<Shape> kImages = {{2, 1, 1, 1},  {2, 3, 5, 7},   {3, 17, 6, 5},
                                    {2, 32, 4, 4}, {1, 5, 67, 64}, {2, 8, 1, 3}};

}  // namespace

TEST_CASE("factors and summands of channels have the right values and gradients") {
  for (const Shape& shape : kImages) {
    check_program(fmt::format("scale_channels {}", to_string(shape)), [&](Sketch& sketch) {
      const TensorId x = sketch.parameter("x", shape), s = sketch.parameter("s", {shape[0], shape[1], 1, 1});
      const TensorId y = sketch.build().emit<ScaleChannels>({x, s});
      sketch.output("y", y);
      sketch.loss(y);
    });
    check_program(fmt::format("add_channels {}", to_string(shape)), [&](Sketch& sketch) {
      const TensorId x = sketch.parameter("x", shape), b = sketch.parameter("b", {shape[1]});
      const TensorId y = sketch.build().emit<AddChannels>({x, b});
      sketch.output("y", y);
      sketch.loss(y);
    });
  }
}

TEST_CASE("factors of channels that the network computes follow the convolutions' layouts") {
  for (int64_t channels : {int64_t{1}, int64_t{16}, int64_t{33}, int64_t{40}}) {
    check_program(fmt::format("{} channels", channels), [&](Sketch& sketch) {
      Builder& build = sketch.build();
      const Conv2dGeometry three{.kernel = {3, 3}, .padding = {1, 1}}, one;
      const TensorId x = sketch.input("x", {2, 3, 7, 6}), w1 = sketch.parameter("w1", {channels, 3, 3, 3});
      const TensorId v = sketch.parameter("v", {channels, channels, 1, 1}),
                     b = sketch.parameter("b", {channels});
      const TensorId w2 = sketch.parameter("w2", {5, channels, 3, 3});
      const TensorId body = build.emit<AddChannels>({build.emit<Conv2d>({x, w1, kNone}, three), b});
      const TensorId mean = build.emit<AvgPool2d>({body}, Conv2dGeometry{.kernel = {7, 6}});
      const TensorId dense = build.emit<Conv2d>({mean, v, kNone}, one);
      const TensorId gate = build.emit<Unary>({dense}, elementwise::Function(elementwise::Sigmoid{}));
      sketch.loss(build.emit<Conv2d>({build.emit<ScaleChannels>({body, gate}), w2, kNone}, three));
    });
  }
}
