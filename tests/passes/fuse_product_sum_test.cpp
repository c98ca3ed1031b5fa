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

TEST_CASE("fuse_product_sum lets products add to sums, but for a bias's") {
  Draft draft;
  draft_shared(draft);
  const Backend reference = make_reference_backend();
  const std::string text = draft.after({fuse_product_sum(*reference.planner)});
  CHECK(text == R"(
entry accumulate_first
 forward:
  %2: f32[4,8] = linear(@x, @w, -, -)
  %4: f32[4,8] = linear(%2, @w, @b, -)
  %6: f32[4,8] = linear(%4, @head, -, -)
  %9: f32[1] = cross_entropy(%6, @labels, @weights, -, -)
 backward:
  %11: f32[4,8] = cross_entropy_backward(@one, %6, @labels, @weights, -, -)
  %12: f32[4,8] = linear_backward_data(%11, @head, -, -)
  %13: f32[8,8] = linear_backward_weights(%4, %11, -)
  %14: f32[4,8] = linear_backward_data(%12, @w, -, -)
  %15: f32[8,8], %16: f32[8] = linear_backward_weights(%2, %12, -)
  %18: f32[8,8] = linear_backward_weights(@x, %14, %15)
  assign(@w.gradient, %18)
  assign(@b.gradient, %16)
  assign(@head.gradient, %13)
  output loss = %9

entry accumulate_next
 forward:
  %19: f32[4,8] = linear(@x, @w, -, -)
  %20: f32[4,8] = linear(%19, @w, @b, -)
  %21: f32[4,8] = linear(%20, @head, -, -)
  %22: f32[1] = cross_entropy(%21, @labels, @weights, -, -)
 backward:
  %23: f32[4,8] = cross_entropy_backward(@one, %21, @labels, @weights, -, -)
  %24: f32[4,8] = linear_backward_data(%23, @head, -, -)
  %36: f32[8,8] = linear_backward_weights(%20, %23, @head.gradient)
  %26: f32[4,8] = linear_backward_data(%24, @w, -, -)
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
  CHECK(draft.after({fuse_product_sum(*reference.planner)}) == before);
}

TEST_CASE("a device whose products do not add gets the sums as they were") {
  Draft draft;
  draft_shared(draft);
  const std::string before = draft.after({});
  const RefusingPlanner planner;
  CHECK(draft.after({fuse_product_sum(planner)}) == before);
}

TEST_CASE("gradients of what several layers read are added in products, but not behind a gelu's slope") {
  Draft draft;
  const auto linear = [&](TensorId of, const char* name) {
    return draft.build.emit<Linear>({of, draft.parameter(name, {8, 8}), kNone});
  };
  const auto add = [&](TensorId a, TensorId b) {
    return draft.build.emit<Binary>({a, b}, Binary::Kind::add);
  };
  const TensorId x = draft.parameter("x", {4, 8});
  const TensorId v = linear(x, "v"), k = linear(x, "k"), q = linear(x, "q");
  const TensorId sum = add(add(q, k), v);
  const TensorId bent = draft.build.emit<Unary>({sum}, elementwise::Function(elementwise::GeluTanh{}));
  const TensorId of_bent = linear(bent, "bent"), of_straight = linear(sum, "straight");
  draft.loss(add(of_straight, of_bent));
  const Backend reference = make_reference_backend();
  run_passes(draft.program, {autodiff(), fuse_gelu(*reference.planner)});
  const std::string text = draft.after({fuse_product_sum(*reference.planner)});
  CHECK(text.substr(text.find(" backward")) == R"( backward:
  %19: f32[4,8] = cross_entropy_backward(@one, %14, @labels, @weights, -, -)
  %20: f32[4,8] = linear_backward_data(%19, @straight, -, -)
  %21: f32[8,8] = linear_backward_weights(%8, %19, -)
  %24: f32[4,8] = linear_backward_data(%19, @bent, %8, -) {gelu_tanh}
  %23: f32[8,8] = linear_backward_weights(%9, %19, -)
  %25: f32[4,8] = add(%20, %24)
  %26: f32[4,8] = linear_backward_data(%25, @q, -, -)
  %27: f32[8,8] = linear_backward_weights(@x, %25, -)
  %30: f32[4,8] = linear_backward_data(%25, @k, -, %26)
  %29: f32[8,8] = linear_backward_weights(@x, %25, -)
  %33: f32[4,8] = linear_backward_data(%25, @v, -, %30)
  %32: f32[8,8] = linear_backward_weights(@x, %25, -)
  output loss = %17
)");
}

TEST_CASE("steps with and without fuse_product_sum are the same") {
  const Backend reference = make_reference_backend();
  check_same_as_without_planner(
      "{input: [2, 3, 3], layers: [flatten, {linear: 16}, gelu, {linear: {out_features: 16, name: again}}, "
      "relu, "
      "{linear: {out_features: 16, bias: false, weight_of: again}}, {relu: {name: shared}}, {linear: "
      "{out_features: 10, name: one}}, {linear: {inputs: [shared], out_features: 10, name: two}}, "
      "{linear: {inputs: [shared], out_features: 10, name: three}}, {add: {inputs: [one, two, three]}}]}",
      {.passes = {.planner = reference.planner.get()}, .micro_batches = GENERATE(int64_t{1}, int64_t{2})});
}
