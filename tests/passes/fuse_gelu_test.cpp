// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/graph/builder.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/linear.h"
#include "core/passes/table.h"
#include "tests/catch.h"
#include "tests/passes/draft.h"
#include "tests/passes/trained.h"
#include "tests/reference/backend.h"

using namespace trainer;

namespace {

/// A gelu_tanh between two products, another one whose sum something else reads, and a gelu by erf.
void draft_gelus(Draft& draft) {
  const elementwise::Function approximate = elementwise::GeluTanh{}, exact = elementwise::Gelu{};
  const auto linear = [&](TensorId x, const char* name) {
    return draft.build.emit<Linear>({x, draft.parameter(name, {8, 8}), kNone});
  };
  const TensorId x = draft.input("x", {4, 8}), sum = linear(x, "u");
  TensorId y = linear(draft.build.emit<Unary>({sum}, approximate), "v");
  const TensorId other = draft.build.emit<Unary>({y}, approximate);
  y = draft.build.emit<Binary>({y, other}, Binary::Kind::add);
  draft.loss(linear(draft.build.emit<Unary>({linear(y, "w")}, exact), "head"));
  run_passes(draft.program, {autodiff()});
}

}  // namespace

TEST_CASE("fuse_gelu takes gelu_tanh and its gradient into the products before them") {
  Draft draft;
  draft_gelus(draft);
  const Backend reference = make_reference_backend();
  CHECK(draft.after({fuse_gelu(*reference.planner)}) == R"(
entry train_step
 forward:
  %3: f32[4,8], %2: f32[4,8] = linear(@x, @u, -, -) {gelu_tanh}
  %6: f32[4,8], %5: f32[4,8] = linear(%3, @v, -, -) {gelu_tanh}
  %7: f32[4,8] = add(%5, %6)
  %9: f32[4,8] = linear(%7, @w, -, -)
  %10: f32[4,8] = gelu(%9)
  %12: f32[4,8] = linear(%10, @head, -, -)
  %15: f32[1] = cross_entropy(%12, @labels, @weights, -, -)
 backward:
  %17: f32[4,8] = cross_entropy_backward(@one, %12, @labels, @weights, -, -)
  %18: f32[4,8] = linear_backward_data(%17, @head, -, -)
  %19: f32[8,8] = linear_backward_weights(%10, %17, -)
  %20: f32[4,8] = gelu_backward(%18, %9)
  %21: f32[4,8] = linear_backward_data(%20, @w, -, -)
  %22: f32[8,8] = linear_backward_weights(%7, %20, -)
  %23: f32[4,8] = gelu_tanh_backward(%21, %5)
  %24: f32[4,8] = add(%21, %23)
  %27: f32[4,8] = linear_backward_data(%24, @v, %2, -) {gelu_tanh}
  %26: f32[8,8] = linear_backward_weights(%3, %24, -)
  %28: f32[8,8] = linear_backward_weights(@x, %27, -)
  output loss = %15
)");
}

TEST_CASE("fuse_gelu leaves a program as it is where the device's planner refuses") {
  Draft draft;
  draft_gelus(draft);
  const std::string before = to_text(draft.program);
  const RefusingPlanner planner;
  run_passes(draft.program, {fuse_gelu(planner)});
  CHECK(to_text(draft.program) == before);
}

TEST_CASE("steps with and without fuse_gelu are the same, with micro-batches too") {
  const Backend reference = make_reference_backend();
  check_same_as_without_planner(
      "{input: [2, 3, 3], layers: [flatten, {linear: 16}, gelu_tanh, {linear: {out_features: 16, name: "
      "skip}}, "
      "gelu_tanh, {linear: {out_features: 16, bias: false}}, {gelu_tanh: {name: end}}, "
      "{add: {inputs: [end, skip]}}, {linear: 10}]}",
      {.passes = {.planner = reference.planner.get()}, .micro_batches = GENERATE(int64_t{1}, int64_t{2})});
}

TEST_CASE("fuse_gelu has no part in programs that recompute") {
  const Backend reference = make_reference_backend();
  for (const auto kind : {Recompute::Kind::none, Recompute::Kind::cheap}) {
    const std::vector<Pass> passes =
        passes_at(Place::micro_batch, {.recompute = {.kind = kind}, .planner = reference.planner.get()});
    const bool has_it = std::ranges::find(passes, "fuse_gelu", &Pass::name) != passes.end();
    CHECK(has_it == (kind == Recompute::Kind::none));
  }
}
