// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/apply_mask.h"

#include <limits>

#include "tests/catch.h"
#include "tests/ops/harness.h"

using namespace trainer;

TEST_CASE("apply_mask: the CPU against the reference, infinities and NaN included") {
  for (const Shape& shape : {Shape{1}, Shape{3, 31}, Shape{17, 3, 3, 3}, Shape{20000}}) {
    check_program("apply_mask " + to_string(shape), [&](Sketch& sketch) {
      const TensorId x = sketch.input("x", shape), mask = sketch.pixels("mask", shape);
      std::vector<float>&values = sketch.values["x"], &kept = sketch.values["mask"];
      for (size_t i = 0; i < values.size(); i += 2) kept[i] = 0;
      values[0] = std::numeric_limits<float>::quiet_NaN();
      values[values.size() / 2 / 2 * 2] = -std::numeric_limits<float>::infinity();
      sketch.output("y", sketch.build().emit<ApplyMask>({x, mask}));
      sketch.loss(sketch.parameter("p", {3}));
    });
  }
}

TEST_CASE("apply_mask: shapes and types that do not fit are refused") {
  const ApplyMask op;
  const auto infer = [&](const TensorSpec& x, const TensorSpec& mask) {
    return op.infer(std::vector<TensorSpec>{x, mask});
  };
  CHECK(infer({{2, 3}, DType::f32}, {{2, 3}, DType::u8})[0] == TensorSpec{{2, 3}, DType::f32});
  CHECK_THROWS(infer({{2, 3}, DType::f32}, {{6}, DType::u8}));
  CHECK_THROWS(infer({{2, 3}, DType::f32}, {{2, 3}, DType::f32}));
  CHECK_THROWS(infer({{2, 3}, DType::bf16}, {{2, 3}, DType::u8}));
}
