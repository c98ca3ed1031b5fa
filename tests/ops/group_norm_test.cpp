// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/group_norm.h"

#include <fmt/format.h>

#include "core/graph/ops/conv2d.h"
#include "tests/catch.h"
#include "tests/ops/harness.h"

using namespace trainer;
using Catch::Matchers::ContainsSubstring;

namespace {

struct GroupCase {
  Shape x;
  int64_t groups;
};

TensorId emit_group_norm(Sketch& sketch, TensorId x, int64_t groups, bool affine) {
  const Shape channels{sketch.build().shape(x)[1]};
  const TensorId gamma = affine ? sketch.parameter("gamma", channels) : kNone;
  const TensorId beta = affine ? sketch.parameter("beta", channels) : kNone;
  return sketch.build().emit<GroupNorm>({x, gamma, beta}, groups, 1e-3);
}

}  // namespace

TEST_CASE("group normalisations have the right values and gradients") {
  for (const GroupCase& one : {GroupCase{{2, 12, 3, 5}, 4},
                               {{1, 31, 5, 3}, 31},
                               {{3, 33, 2, 2}, 1},
                               {{31, 6, 1, 1}, 2},
                               {{1, 16, 9, 7}, 2},
                               {{2, 1, 1, 7}, 1}}) {
    for (const bool affine : {false, true}) {
      check_program(
          fmt::format("group_norm {} in {} groups", to_string(one.x), one.groups), [&](Sketch& sketch) {
            const TensorId y = emit_group_norm(sketch, sketch.parameter("x", one.x), one.groups, affine);
            sketch.output("y", y);
            sketch.loss(y);
          });
    }
  }
}

TEST_CASE(
    "group normalisations of several pieces agree with the reference, whose differences would drown in "
    "rounding") {
  for (const GroupCase& one : {GroupCase{{1, 16, 33, 31}, 2}, {{1, 2, 200, 180}, 1}, {{3, 4, 190, 180}, 2}}) {
    const Draft draft = [&](Sketch& sketch) {
      const TensorId y = emit_group_norm(sketch, sketch.parameter("x", one.x), one.groups, true);
      sketch.output("y", y);
      sketch.loss(y);
    };
    INFO(to_string(one.x) << " in " << one.groups << " groups");
    check_cpu(draft, 1);
    check_bf16(draft, 1);
  }
}

TEST_CASE("group normalisations take a convolution's layout as it lies, padding included") {
  for (const GroupCase& one : {GroupCase{{3, 2, 7, 5}, 3}, {{1, 3, 9, 9}, 33}, {{2, 3, 6, 6}, 11}}) {
    for (const int64_t channels : {int64_t{33}, int64_t{66}}) {
      check_program(fmt::format("group_norm of {} channels in {} groups", channels, one.groups),
                    [&](Sketch& sketch) {
                      const TensorId w = sketch.parameter("w", {channels, one.x[1], 3, 3});
                      const TensorId c =
                          sketch.build().emit<Conv2d>({sketch.parameter("x", one.x), w, kNone},
                                                      Conv2dGeometry{.kernel = {3, 3}, .padding = {1, 1}});
                      const TensorId y = emit_group_norm(sketch, c, one.groups, true);
                      sketch.output("y", y);
                      sketch.loss(y);
                    });
    }
  }
}

TEST_CASE("group normalisations say what does not fit") {
  Sketch sketch(1);
  const TensorId x = sketch.input("x", {2, 6, 3, 3}), rows = sketch.input("rows", {2, 6});
  CHECK_THROWS_WITH(emit_group_norm(sketch, x, 4, false),
                    ContainsSubstring("4 groups do not divide 6 channels"));
  CHECK_THROWS_WITH(emit_group_norm(sketch, rows, 2, false),
                    ContainsSubstring("expected images (N, C, H, W), got 2x6"));
}
