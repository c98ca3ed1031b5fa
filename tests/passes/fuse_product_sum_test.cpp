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

/// A layer that shares its weights with another one, and a head, in two micro-batches.
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
  draft.run({fuse_product_sum(*reference.planner)});
  CHECK(draft.calls("linear_backward_weights", entry_name::kAccumulateFirst) ==
        Calls{"linear_backward_weights(linear, cross_entropy_backward, -)",
              "linear_backward_weights(linear, linear_backward_data, -)",
              "linear_backward_weights(x, linear_backward_data, linear_backward_weights)"});
  CHECK(draft.calls("linear_backward_weights", entry_name::kAccumulateNext) ==
        Calls{"linear_backward_weights(linear, cross_entropy_backward, head.gradient)",
              "linear_backward_weights(linear, linear_backward_data, w.gradient)",
              "linear_backward_weights(x, linear_backward_data, linear_backward_weights)"});
  CHECK(draft.calls("add", entry_name::kAccumulateFirst).empty());
  CHECK(draft.calls("add", entry_name::kAccumulateNext) ==
        Calls{"add(b.gradient, linear_backward_weights.1)"});
}

TEST_CASE("a gradient that is used by itself too keeps its own product") {
  Draft draft;
  draft.loss(draft.build.emit<Linear>({draft.input("x", {4, 8}), draft.parameter("w", {8, 8}), kNone}));
  run_passes(draft.program, {autodiff()});
  const TensorId gradient = draft.program.entries[0].gradients[0].gradient;
  draft.output("sum", draft.build.emit<Binary>({draft.input("other", {8, 8}), gradient}, Binary::Kind::add));
  const Backend reference = make_reference_backend();
  CHECK_FALSE(draft.is_changed_by({fuse_product_sum(*reference.planner)}));
}

TEST_CASE("a device whose products do not add gets the sums as they were") {
  Draft draft;
  draft_shared(draft);
  CHECK_FALSE(draft.is_changed_by({fuse_product_sum(RefusingPlanner())}));
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
  draft.run({autodiff(), fuse_gelu(*reference.planner), fuse_product_sum(*reference.planner)});
  CHECK(draft.calls("linear_backward_data") ==
        Calls{"linear_backward_data(cross_entropy_backward, straight, -, -)",
              "linear_backward_data(cross_entropy_backward, bent, add, -) {gelu_tanh}",
              "linear_backward_data(add, q, -, -)", "linear_backward_data(add, k, -, linear_backward_data)",
              "linear_backward_data(add, v, -, linear_backward_data)"});
  CHECK(draft.calls("add").back() == "add(linear_backward_data, linear_backward_data)");
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
