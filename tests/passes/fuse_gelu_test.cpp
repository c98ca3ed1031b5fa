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

/// A gelu_tanh between two products, another one with a sum that another node reads, and a gelu by erf.
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
  draft.run({fuse_gelu(*reference.planner)});
  CHECK(draft.calls("linear") == Calls{"linear(x, u, -, -) {gelu_tanh}",
                                       "linear(linear, v, -, -) {gelu_tanh}", "linear(add, w, -, -)",
                                       "linear(gelu, head, -, -)"});
  CHECK(draft.calls("gelu_tanh").empty());
  CHECK(draft.calls("add").front() == "add(linear.1, linear)");
  CHECK(draft.calls("gelu_tanh_backward") == Calls{"gelu_tanh_backward(linear_backward_data, linear.1)"});
  CHECK(draft.calls("linear_backward_data").back() ==
        "linear_backward_data(add, v, linear.1, -) {gelu_tanh}");
}

TEST_CASE("fuse_gelu leaves a program as it is where the device's planner refuses") {
  Draft draft;
  draft_gelus(draft);
  CHECK_FALSE(draft.is_changed_by({fuse_gelu(RefusingPlanner())}));
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
