// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/engine/planner.h"
#include "core/graph/builder.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/for_each.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/linear.h"
#include "core/step/stages.h"
#include "tests/passes/draft.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

TensorId state(Draft& draft, const std::string& name, const Shape& shape) {
  return draft.program.persistent(name, {shape, DType::f32}, Role::state,
                                  {.kind = Initial::Kind::fill, .a = 2, .b = 0, .table = {}});
}

void move(Draft& draft, const char* name, const Shape& shape, TensorId by, double share) {
  const TensorId old = state(draft, name, shape);
  draft.build.assign(old, draft.build.emit<Lerp>({old, by}, share));
}

/// Two weights that are cast where they are read, and three states that move, one by another share.
void draft_step(Draft& draft) {
  const TensorId x = draft.input("x", {2, 3});
  for (const char* name : {"v", "w"}) {
    const TensorId low = draft.build.emit<Cast>({draft.parameter(name, {2, 3})}, DType::bf16);
    const TensorId y = draft.relu(draft.build.emit<Cast>({low}, DType::f32));
    move(draft, name == std::string("v") ? "s" : "t", {2, 3}, y, 0.1);
    draft.output(std::string("y of ") + name, y);
  }
  move(draft, "u", {2, 3}, x, 0.5);
}

}  // namespace

TEST_CASE("fuse_horizontally casts all weights at once and moves all states at once") {
  Draft draft;
  draft_step(draft);
  const Backend reference = make_reference_backend();
  CHECK(draft.after({fuse_horizontally(*reference.planner)}) == R"(
entry train_step
 forward:
  %2: bf16[2,3], %8: bf16[2,3] = cast(@v, @w) {to=bf16}
  %3: f32[2,3] = cast(%2) {to=f32}
  %4: f32[2,3] = relu(%3)
  %9: f32[2,3] = cast(%8) {to=f32}
  %10: f32[2,3] = relu(%9)
  %6: f32[2,3], %12: f32[2,3], %14: f32[2,3] = lerp(@s, %4, -, @t, %10, -, @u, @x, -) {share=0.1 and 0.5}
  assign(@s, %6)
  assign(@t, %12)
  assign(@u, %14)
  output y of v = %4
  output y of w = %10
)");
}

TEST_CASE("a node that depends on one of a group's does not join it, nor does one that reads what changes") {
  Draft draft;
  const TensorId x = draft.input("x", {2}), a = state(draft, "a", {2}), b = state(draft, "b", {2});
  const TensorId first = draft.build.emit<Lerp>({a, x}, 0.1);
  const TensorId second = draft.build.emit<Lerp>({b, first}, 0.1);
  draft.build.assign(a, first);
  draft.build.assign(b, second);
  const Backend reference = make_reference_backend();
  run_passes(draft.program, {fuse_horizontally(*reference.planner)});
  for (const Node& node : draft.program.entries[0].nodes)
    CHECK(dynamic_cast<const ForEach*>(node.op.get()) == nullptr);
}

TEST_CASE("gradients are added at once to those of other micro-batches, and residuals are not") {
  Draft draft;
  const TensorId x = draft.input("x", {4, 3});
  TensorId y = draft.build.emit<Linear>({x, draft.parameter("v", {3, 3}), draft.parameter("b", {3})});
  y = draft.build.emit<Binary>({x, y}, Binary::Kind::add);
  draft.loss(draft.build.emit<Linear>({y, draft.parameter("w", {2, 3}), kNone}));
  const Backend reference = make_reference_backend();
  run_passes(draft.program, {autodiff(), accumulate(2), fuse_horizontally(*reference.planner)});
  const std::string text = to_text(draft.program), next = text.substr(text.find("entry accumulate_next"));
  CAPTURE(next);
  CHECK(next.find("= add(@v.gradient, %23, @b.gradient, %24, @w.gradient, %22)") != std::string::npos);
  CHECK(next.find("= add(@x, %") != std::string::npos);
}

TEST_CASE("lerps that different numbers skip stay apart") {
  Draft draft;
  const TensorId x = draft.input("x", {2});
  for (const char* name : {"a", "b"}) {
    const TensorId old = state(draft, name, {2}), skip = draft.input(std::string("skip ") + name, {1});
    draft.build.assign(old, draft.build.emit<Lerp>({old, x, skip}, 0.1));
  }
  const Backend reference = make_reference_backend();
  run_passes(draft.program, {fuse_horizontally(*reference.planner)});
  for (const Node& node : draft.program.entries[0].nodes)
    CHECK(dynamic_cast<const ForEach*>(node.op.get()) == nullptr);
}

TEST_CASE(
    "sums that are read are cleared at once, and those of a convolution that is computed again are not") {
  Draft draft;
  const TensorId x = draft.input("x", {2, 4, 5, 5});
  for (const char* name : {"first", "second", "again"}) {
    const auto op = std::make_shared<Conv2d>(Conv2dGeometry{.kernel = {3, 3}}, false, true);
    const auto y = draft.build.emit_all(op, {x, draft.parameter(name, {3, 4, 3, 3}), kNone});
    draft.output(name, y[0]);
    if (name == std::string("again")) continue;
    draft.output(std::string("sums of ") + name, y[1]);
    draft.output(std::string("squares of ") + name, y[2]);
  }
  const Backend reference = make_reference_backend();
  CHECK(draft.after({dead_code(), fuse_horizontally(*reference.planner)}) == R"(
entry train_step
 forward:
  %13: f32[3], %14: f32[3], %15: f32[3], %16: f32[3] = zeros()
  %2: f32[2,3,3,3], %3: f32[3], %4: f32[3] = conv2d(@x, @first, -, %13, %14) {kernel=3x3 stride=1x1 padding=0x0 moments}
  %6: f32[2,3,3,3], %7: f32[3], %8: f32[3] = conv2d(@x, @second, -, %15, %16) {kernel=3x3 stride=1x1 padding=0x0 moments}
  %10: f32[2,3,3,3], -, - = conv2d(@x, @again, -, -, -) {kernel=3x3 stride=1x1 padding=0x0 moments}
  output first = %2
  output sums of first = %3
  output squares of first = %4
  output second = %6
  output sums of second = %7
  output squares of second = %8
  output again = %10
)");
}

TEST_CASE("a state that a waiting node reads changes only behind it") {
  Draft draft;
  const TensorId x = draft.input("x", {2}), a = state(draft, "a", {2}), b = state(draft, "b", {2});
  const TensorId averaged = draft.build.emit<Lerp>({b, a}, 0.1);
  draft.build.assign(a, x);
  draft.output("averaged", averaged);
  draft.output("other", draft.build.emit<Lerp>({b, x}, 0.1));
  const Backend reference = make_reference_backend();
  run_passes(draft.program, {fuse_horizontally(*reference.planner)});  // verifies
  Session session(draft.program, reference);
  session.set("x", {12, 22});
  session.run(entry_name::kTrainStep);
  CHECK(session.output(entry_name::kTrainStep, "averaged") == std::vector<double>{2, 2});
  CHECK(session.output(entry_name::kTrainStep, "other") == std::vector<double>{3, 4});
}

TEST_CASE("a step computes the same numbers with and without fuse_horizontally") {
  const Backend reference = make_reference_backend(true);
  std::map<std::string, std::vector<double>> found[2];
  for (int fused = 0; fused < 2; ++fused) {
    Draft draft;
    draft_step(draft);
    if (fused == 1) run_passes(draft.program, {fuse_horizontally(*reference.planner)});
    Session session(draft.program, reference);
    session.set("x", {1, 2, 3, 4, 5, 6});
    session.set("v", {0.1f, 0.2f, 0.3f, -0.4f, 0.5f, 0.6f});
    session.set("w", {1.1f, 1.2f, -1.3f, 1.4f, 1.5f, 1.6f});
    for (int step = 0; step < 2; ++step) session.run(entry_name::kTrainStep);
    for (const char* name : {"s", "t", "u"}) found[fused][name] = session.persistent(name);
    for (const char* name : {"y of v", "y of w"})
      found[fused][name] = session.output(entry_name::kTrainStep, name);
  }
  CHECK(found[0] == found[1]);
}

TEST_CASE("gradients of weights that are rounded anyway are cast at once, where they are read") {
  Draft draft;
  const TensorId x = draft.build.emit<Cast>({draft.input("x", {2, 4, 5, 5})}, DType::f16);
  const TensorId dy = draft.build.emit<Cast>({draft.input("dy", {2, 4, 3, 3})}, DType::f16);
  for (const char* name : {"first", "second"}) {
    const auto op =
        std::make_shared<Conv2dBackwardWeights>(Conv2dGeometry{.kernel = {3, 3}}, Shape{4, 4, 3, 3}, false);
    draft.output(name, draft.build.emit_all(op, {x, dy})[0]);
  }
  const Backend reference = make_reference_backend();
  const std::string text = draft.after({fuse_horizontally(*reference.planner)});
  CAPTURE(text);
  CHECK(text.find("%6: f16[4,4,3,3] = conv2d_backward_weights(") != std::string::npos);
  CHECK(text.find("%7: f16[4,4,3,3] = conv2d_backward_weights(") != std::string::npos);
  CHECK(text.find("%4: f32[4,4,3,3], %5: f32[4,4,3,3] = cast(%6, %7) {to=f32}") != std::string::npos);
}

TEST_CASE("fuse_horizontally leaves a program as it is where the device's planner refuses") {
  Draft draft;
  draft_step(draft);
  const std::string before = to_text(draft.program);
  const RefusingPlanner planner;
  run_passes(draft.program, {fuse_horizontally(planner)});
  CHECK(to_text(draft.program) == before);
}
