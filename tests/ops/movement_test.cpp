// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tests/catch.h"

#include "core/engine/plan.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/unary.h"
#include "core/step/stages.h"
#include "cpu/backend.h"
#include "tests/ops/harness.h"

using namespace trainer;

TEST_CASE("concat along each axis") {
  const Shape base{2, 3, 4, 5};
  for (int64_t axis : {1, 2, 3}) {
    check_program(fmt::format("axis {}", axis), [&](Sketch& sketch) {
      std::vector<TensorId> parts;
      for (int64_t size : {1, 17, 4}) {
        Shape shape = base;
        shape[static_cast<size_t>(axis)] = size;
        parts.push_back(sketch.parameter(fmt::format("part{}", size), shape));
      }
      parts.push_back(parts[1]);  // twice: its gradient is a sum
      const TensorId y = sketch.build().emit<Concat>(parts, axis);
      sketch.output("y", y);
      sketch.loss(y);
    });
  }
}

TEST_CASE("concat of features, one input that wants no gradient") {
  check_program("features", [](Sketch& sketch) {
    const TensorId a = sketch.parameter("a", {3, 31}), x = sketch.input("x", {3, 1}),
                   b = sketch.parameter("b", {3, 2});
    sketch.loss(sketch.build().emit<Concat>({a, x, b}, 1));
  });
}

TEST_CASE("concat of what convolutions gave") {
  check_program("branches", [](Sketch& sketch) {
    const TensorId x = sketch.input("x", {2, 3, 6, 5});
    std::vector<TensorId> branches;
    for (int64_t channels : {17, 1, 16}) {
      const TensorId w = sketch.parameter(fmt::format("w{}", channels), {channels, 3, 1, 1});
      branches.push_back(sketch.build().emit<Conv2d>({x, w, kNone}, Conv2dGeometry{}));
    }
    sketch.loss(sketch.build().emit<Concat>(branches, 1));
  });
}

TEST_CASE("concat copies whole blocks of channels, and plain rows where the blocks are not whole") {
  for (const std::vector<int64_t>& parts :
       std::vector<std::vector<int64_t>>{{16, 32, 16}, {16, 17}, {32}, {3, 16}, {8, 8}}) {
    const Draft draft = [&](Sketch& sketch) {
      Builder& build = sketch.build();
      const TensorId x = sketch.input("x", {2, 16, 5, 6});
      std::vector<TensorId> branches;
      int64_t sum = 0;
      for (int64_t channels : parts) {
        const TensorId w = sketch.parameter(fmt::format("w{}", branches.size()), {channels, 16, 1, 1});
        branches.push_back(build.emit<Conv2d>({x, w, kNone}, Conv2dGeometry{}));
        sum += channels;
      }
      const TensorId joined = build.emit<Concat>(branches, 1);
      sketch.output("joined", joined);
      sketch.loss(
          build.emit<Conv2d>({joined, sketch.parameter("v", {4, sum, 1, 1}), kNone}, Conv2dGeometry{}));
    };
    check_program("blocks", draft, 1);
  }
}

TEST_CASE("whole blocks of channels are joined and parted as they lie") {
  Sketch sketch(1);
  Builder& build = sketch.build();
  const TensorId x = sketch.input("x", {2, 16, 5, 6});
  std::vector<TensorId> branches;
  for (int64_t channels : {32, 48}) {
    const TensorId w = sketch.parameter(fmt::format("w{}", channels), {channels, 16, 1, 1});
    branches.push_back(build.emit<Conv2d>({x, w, kNone}, Conv2dGeometry{}));
  }
  const TensorId joined = build.emit<Concat>(branches, 1);
  sketch.loss(build.emit<Conv2d>({joined, sketch.parameter("v", {4, 80, 1, 1}), kNone}, Conv2dGeometry{}));
  run_passes(sketch.program, {autodiff()});
  const auto cpu = make_cpu_backend(2);
  const Plan plan = make_plan(sketch.program, *cpu.planner);
  for (const PlannedNode& planned : plan.entries[0].nodes) {
    if (planned.node.op->name() != "reorder") continue;
    const Shape& shape = plan.tensors[static_cast<size_t>(planned.node.inputs[0])].spec.shape;
    CHECK((shape[1] != 32 && shape[1] != 48 && shape != Shape{2, 80, 5, 6}));
  }
}

TEST_CASE("reshape is read under both shapes") {
  check_program("views", [](Sketch& sketch) {
    Builder& build = sketch.build();
    const TensorId x = sketch.parameter("x", {2, 17, 3, 2});
    const TensorId tanh = build.emit<Unary>({x}, elementwise::Function(elementwise::Tanh{}));
    const TensorId flat = build.emit<Reshape>({tanh}, Shape{2, 102});
    const TensorId squared = build.emit<Binary>({flat, flat}, Binary::Kind::mul);
    const TensorId back = build.emit<Reshape>({squared}, Shape{2, 17, 3, 2});
    sketch.loss(build.emit<Binary>({back, tanh}, Binary::Kind::add));
  });
}
