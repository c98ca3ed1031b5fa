// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/softmax.h"

#include "tests/catch.h"
#include "tests/ops/harness.h"

using namespace trainer;

TEST_CASE("softmax and its logarithm have the right values and gradients") {
  for (const Shape& shape : {Shape{1, 2}, Shape{31, 33}, Shape{3, 1, 31}, Shape{2, 33, 5}, Shape{2, 31, 3, 5},
                             Shape{1, 3, 17, 9}, Shape{3, 33, 1, 1}, Shape{2, 1, 1, 3}}) {
    for (const bool log : {false, true}) {
      check_program((log ? "log_softmax " : "softmax ") + to_string(shape), [&](Sketch& sketch) {
        const TensorId y = sketch.build().emit<Softmax>({sketch.parameter("x", shape)}, log);
        sketch.output("y", y);
        sketch.loss(y);
      });
    }
  }
}

TEST_CASE("a softmax of many classes agrees with the reference, whose differences would drown in rounding") {
  for (const Shape& shape : {Shape{3, 1000}, Shape{40, 3000}, Shape{1, 3, 70, 90}}) {
    for (const bool log : {false, true}) {
      INFO(to_string(shape));
      check_cpu(
          [&](Sketch& sketch) {
            const TensorId y = sketch.build().emit<Softmax>({sketch.parameter("x", shape)}, log);
            sketch.output("y", y);
            sketch.loss(y);
          },
          1);
    }
  }
}

TEST_CASE("a softmax of large logits neither overflows nor loses its digits") {
  for (const bool log : {false, true}) {
    check_cpu(
        [&](Sketch& sketch) {
          const TensorId x = sketch.parameter("x", {5, 37});
          for (float& value : sketch.values["x"]) value = 1000 + 10 * value;
          const TensorId y = sketch.build().emit<Softmax>({x}, log);
          sketch.output("y", y);
          sketch.loss(y);
        },
        1, {.forward = 1e-5, .gradients = 1e-3});
  }
}
