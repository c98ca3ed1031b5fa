// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/linear.h"

#include <catch2/catch.hpp>

#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/unary.h"
#include "tests/ops/harness.h"

using namespace trainer;

TEST_CASE("linear layers have the right values and gradients") {
  struct Extents {
    int64_t samples, features, outputs;
  };
  for (const Extents& e :
       {Extents{1, 1, 2}, {1, 31, 33}, {3, 33, 31}, {3, 17, 1}, {32, 64, 10}, {5, 100, 48}}) {
    for (const bool bias : {false, true}) {
      for (const bool relu : {false, true}) {
        const Draft draft = [&](Sketch& sketch) {
          const TensorId x = sketch.parameter("x", {e.samples, e.features});
          const TensorId w = sketch.parameter("w", {e.outputs, e.features});
          const TensorId b = bias ? sketch.parameter("b", {e.outputs}) : kNone;
          TensorId y = sketch.build().emit<Linear>({x, w, b});
          if (relu) y = sketch.build().emit<Unary>({y}, elementwise::Function(elementwise::Relu{}));
          sketch.output("y", y);
          sketch.loss(y);
        };
        INFO(e.samples << "x" << e.features << " -> " << e.outputs);
        if (relu) {
          for (uint64_t seed : {1, 2}) check_cpu(draft, seed);
        } else {
          check_program("linear", draft);
        }
      }
    }
  }
}

TEST_CASE("a linear layer takes a convolution's or a pool's output as it lies") {
  for (int64_t channels : {int64_t{1}, int64_t{17}, int64_t{32}, int64_t{33}}) {
    for (const bool pools : {false, true}) {
      check_program("flattened images", [&](Sketch& sketch) {
        Builder& build = sketch.build();
        const TensorId x = sketch.input("x", {3, 2, 6, 5});
        const TensorId w = sketch.parameter("w", {channels, 2, 3, 3}), b = sketch.parameter("b", {channels});
        TensorId y = build.emit<Conv2d>({x, w, b}, Conv2dGeometry{.kernel = {3, 3}, .padding = {1, 1}});
        if (pools) y = build.emit<AvgPool2d>({y}, Conv2dGeometry{.kernel = {2, 2}, .stride = {2, 2}});
        const int64_t features = numel(build.shape(y)) / 3;
        const TensorId flat = build.emit<Reshape>({y}, Shape{3, features});
        const TensorId v = sketch.parameter("v", {13, features}), c = sketch.parameter("c", {13});
        sketch.loss(build.emit<Linear>({flat, v, c}));
      });
    }
  }
}
