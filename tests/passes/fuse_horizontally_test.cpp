// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/engine/planner.h"
#include "core/graph/builder.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/conv2d.h"
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

/// Two weights that are cast before each read, and three states that are updated, one by another share.
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
  draft.run({fuse_horizontally(*reference.planner)});
  CHECK(draft.calls("cast") ==
        Calls{"bf16 cast(v, w) {to=bf16}", "cast(cast) {to=f32}", "cast(cast.1) {to=f32}"});
  CHECK(draft.calls("lerp") == Calls{"lerp(s, relu, -, t, relu, -, u, x, -) {share=0.1 and 0.5}"});
  CHECK(draft.calls("assign") == Calls{"assign(s, lerp)", "assign(t, lerp.1)", "assign(u, lerp.2)"});
}

TEST_CASE("a node that depends on one of a group's does not join it, nor does one that reads what changes") {
  Draft draft;
  const TensorId x = draft.input("x", {2}), a = state(draft, "a", {2}), b = state(draft, "b", {2});
  const TensorId first = draft.build.emit<Lerp>({a, x}, 0.1);
  const TensorId second = draft.build.emit<Lerp>({b, first}, 0.1);
  draft.build.assign(a, first);
  draft.build.assign(b, second);
  const Backend reference = make_reference_backend();
  draft.run({fuse_horizontally(*reference.planner)});
  CHECK(draft.calls("lerp").size() == 2);
}

TEST_CASE("gradients are added at once to those of other micro-batches, and residuals are not") {
  Draft draft;
  const TensorId x = draft.input("x", {4, 3});
  TensorId y = draft.build.emit<Linear>({x, draft.parameter("v", {3, 3}), draft.parameter("b", {3})});
  y = draft.build.emit<Binary>({x, y}, Binary::Kind::add);
  draft.loss(draft.build.emit<Linear>({y, draft.parameter("w", {2, 3}), kNone}));
  const Backend reference = make_reference_backend();
  draft.run({autodiff(), accumulate(2), fuse_horizontally(*reference.planner)});
  const Calls sums = draft.calls("add", entry_name::kAccumulateNext);
  REQUIRE(sums.size() == 2);
  CHECK(sums[0] == "add(x, linear)");
  CHECK(sums[1] ==
        "add(v.gradient, linear_backward_weights, b.gradient, linear_backward_weights.1, w.gradient, "
        "linear_backward_weights)");
}

TEST_CASE("lerps that different numbers skip stay apart") {
  Draft draft;
  const TensorId x = draft.input("x", {2});
  for (const char* name : {"a", "b"}) {
    const TensorId old = state(draft, name, {2}), skip = draft.input(std::string("skip ") + name, {1});
    draft.build.assign(old, draft.build.emit<Lerp>({old, x, skip}, 0.1));
  }
  const Backend reference = make_reference_backend();
  draft.run({fuse_horizontally(*reference.planner)});
  CHECK(draft.calls("lerp").size() == 2);
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
  CHECK(draft.run({dead_code(), fuse_horizontally(*reference.planner)}).calls() ==
        Calls{"zeros()", "conv2d(x, first, -, zeros, zeros.1, -) {kernel=3x3 stride=1x1 padding=0x0 moments}",
              "conv2d(x, second, -, zeros.2, zeros.3, -) {kernel=3x3 stride=1x1 padding=0x0 moments}",
              "conv2d(x, again, -, -, -, -) {kernel=3x3 stride=1x1 padding=0x0 moments}"});
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
  draft.run({fuse_horizontally(*reference.planner)});
  CHECK(draft.calls("conv2d_backward_weights").size() == 2);
  for (const std::string& product : draft.calls("conv2d_backward_weights"))
    CHECK(product.starts_with("f16 "));
  CHECK(draft.calls("cast").back() == "cast(conv2d_backward_weights, conv2d_backward_weights) {to=f32}");
}

TEST_CASE("fuse_horizontally leaves a program as it is where the device's planner refuses") {
  Draft draft;
  draft_step(draft);
  CHECK_FALSE(draft.is_changed_by({fuse_horizontally(RefusingPlanner())}));
}
