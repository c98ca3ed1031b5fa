// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/binary.h"
#include "core/graph/ops/linear.h"
#include "core/passes/table.h"
#include "tests/catch.h"
#include "tests/passes/draft.h"
#include "tests/passes/trained.h"
#include "tests/reference/backend.h"

using namespace trainer;

namespace {

/// A layer whose weights another one reads too, and a head, in two micro-batches.
void draft_shared(Draft& draft) {
  const TensorId x = draft.input("x", {4, 8}), w = draft.parameter("w", {8, 8});
  TensorId y = draft.build.emit<Linear>({x, w, kNone});
  y = draft.build.emit<Linear>({y, w, draft.parameter("b", {8})});
  draft.loss(draft.build.emit<Linear>({y, draft.parameter("head", {8, 8}), kNone}));
  run_passes(draft.program, {autodiff(), accumulate(2)});
}

}  // namespace

TEST_CASE("fuse_weight_sum lets products add to sums, but for a bias's") {
  Draft draft;
  draft_shared(draft);
  const Backend reference = make_reference_backend();
  const std::string text = draft.after({fuse_weight_sum(*reference.planner)});
  CHECK(text == R"(
entry accumulate_first
 forward:
  %2: f32[4,8] = linear(@x, @w, -)
  %4: f32[4,8] = linear(%2, @w, @b)
  %6: f32[4,8] = linear(%4, @head, -)
  %9: f32[1] = cross_entropy(%6, @labels, @weights)
 backward:
  %11: f32[4,8] = cross_entropy_backward(@one, %6, @labels, @weights)
  %12: f32[4,8] = linear_backward_data(%11, @head)
  %13: f32[8,8] = linear_backward_weights(%4, %11)
  %14: f32[4,8] = linear_backward_data(%12, @w)
  %15: f32[8,8], %16: f32[8] = linear_backward_weights(%2, %12)
  %18: f32[8,8] = linear_backward_weights(@x, %14, %15)
  assign(@w.gradient, %18)
  assign(@b.gradient, %16)
  assign(@head.gradient, %13)
  output loss = %9

entry accumulate_next
 forward:
  %19: f32[4,8] = linear(@x, @w, -)
  %20: f32[4,8] = linear(%19, @w, @b)
  %21: f32[4,8] = linear(%20, @head, -)
  %22: f32[1] = cross_entropy(%21, @labels, @weights)
 backward:
  %23: f32[4,8] = cross_entropy_backward(@one, %21, @labels, @weights)
  %24: f32[4,8] = linear_backward_data(%23, @head)
  %36: f32[8,8] = linear_backward_weights(%20, %23, @head.gradient)
  %26: f32[4,8] = linear_backward_data(%24, @w)
  %27: f32[8,8], %28: f32[8] = linear_backward_weights(%19, %24, @w.gradient)
  %34: f32[8,8] = linear_backward_weights(@x, %26, %27)
  assign(@w.gradient, %34)
  %35: f32[8] = add(@b.gradient, %28)
  assign(@b.gradient, %35)
  assign(@head.gradient, %36)
  output loss = %22

entry update
)");
}

TEST_CASE("a gradient that is used by itself too keeps its own product") {
  Draft draft;
  draft.loss(draft.build.emit<Linear>({draft.input("x", {4, 8}), draft.parameter("w", {8, 8}), kNone}));
  run_passes(draft.program, {autodiff()});
  const TensorId gradient = draft.program.entries[0].gradients[0].gradient;
  draft.output("sum", draft.build.emit<Binary>({draft.input("other", {8, 8}), gradient}, Binary::Kind::add));
  const std::string before = draft.after({});
  const Backend reference = make_reference_backend();
  CHECK(draft.after({fuse_weight_sum(*reference.planner)}) == before);
}

TEST_CASE("a device whose products do not add gets the sums as they were") {
  Draft draft;
  draft_shared(draft);
  const std::string before = draft.after({});
  const RefusingPlanner planner;
  CHECK(draft.after({fuse_weight_sum(planner)}) == before);
}

TEST_CASE("steps with and without fuse_weight_sum are the same") {
  const Backend reference = make_reference_backend();
  check_same_as_without_planner(
      "{input: [2, 3, 3], layers: [flatten, {linear: 16}, gelu, {linear: {out_features: 16, name: again}}, "
      "relu, "
      "{linear: {out_features: 16, bias: false, weight_of: again}}, {linear: 10}]}",
      {.micro_batches = GENERATE(int64_t{1}, int64_t{2}), .planner = reference.planner.get()});
}
