// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include "tests/catch.h"

#include "cpu/backend.h"
#include "tests/ops/harness.h"
#include "tests/reference/session.h"

using namespace trainer;
using Catch::Matchers::ContainsSubstring;

namespace {

struct MatMulSizes {
  Shape samples;  ///< (N), or none
  int64_t rows, depth, columns;

  Shape matrix(int64_t height, int64_t width, bool is_transposed) const {
    Shape shape = samples;
    shape.push_back(is_transposed ? width : height);
    shape.push_back(is_transposed ? height : width);
    return shape;
  }
};

Draft matmul_of(const MatMulSizes& e, bool transpose_a, bool transpose_b) {
  return [=](Sketch& sketch) {
    const TensorId a = sketch.parameter("a", e.matrix(e.rows, e.depth, transpose_a));
    const TensorId b = sketch.parameter("b", e.matrix(e.depth, e.columns, transpose_b));
    const TensorId y = sketch.build().emit<MatMul>({a, b}, transpose_a, transpose_b);
    sketch.output("y", y);
    sketch.loss(y);
  };
}

}  // namespace

TEST_CASE("products of two activations have the right values and gradients") {
  for (const MatMulSizes& e : {MatMulSizes{{}, 1, 1, 2},
                               {{}, 31, 33, 1},
                               {{}, 33, 1, 31},
                               {{}, 17, 40, 24},
                               {{1}, 31, 33, 5},
                               {{3}, 1, 31, 33},
                               {{2}, 33, 31, 1},
                               {{31}, 5, 1, 7},
                               {{5}, 16, 32, 8}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        check_program(fmt::format("matmul {}x{}x{}, {} samples, transposed {} {}", e.rows, e.depth, e.columns,
                                  e.samples.empty() ? 0 : e.samples[0], transpose_a, transpose_b),
                      matmul_of(e, transpose_a, transpose_b));
      }
    }
  }
}

TEST_CASE("a product of a tensor with itself transposed has both gradients, as Newton-Schulz wants it") {
  for (const Shape& shape : {Shape{5, 33}, Shape{2, 31, 17}}) {
    check_program("x xT x", [&](Sketch& sketch) {
      Builder& build = sketch.build();
      const TensorId x = sketch.parameter("x", shape);
      const TensorId y = build.emit<MatMul>({build.emit<MatMul>({x, x}, false, true), x});
      sketch.output("y", y);
      sketch.loss(y);
    });
  }
}

TEST_CASE("no product of sequences runs oneDNN's reference code on the CPU") {
  const auto cpu = make_cpu_backend(2);
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      Sketch sketch(1);
      matmul_of({{8}, 64, 48, 64}, transpose_a, transpose_b)(sketch);
      Session session(sketch.program, cpu);
      for (const PlannedNode& node : session.executable().plan().entries[0].nodes) {
        CHECK(node.node.op->name() != "reorder");
        if (node.node.op->name() == "matmul")
          CHECK_THAT(node.choice.implementation, !ContainsSubstring("ref"));
      }
    }
  }
}

TEST_CASE("products say which shapes do not fit") {
  Sketch sketch(1);
  Builder& build = sketch.build();
  const TensorId a = sketch.input("a", {2, 3, 5}), b = sketch.input("b", {2, 3, 5}),
                 c = sketch.input("c", {4, 5, 3}), image = sketch.input("image", {2, 1, 3, 5});
  CHECK_THROWS_WITH(build.emit<MatMul>({a, b}),
                    ContainsSubstring("rows of 5 elements met columns of 3 (2x3x5 by 2x3x5)"));
  CHECK_THROWS_WITH(build.emit<MatMul>({a, c}), ContainsSubstring("2 matrices cannot be multiplied by 4"));
  CHECK_THROWS_WITH(build.emit<MatMul>({a, image}),
                    ContainsSubstring("expected two matrices, or two sequences of matrices (N, T, K), got "
                                      "shapes 2x3x5 and 2x1x3x5"));
}
