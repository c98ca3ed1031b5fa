// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include <stdexcept>

#include "core/graph/ops/binary.h"
#include "tests/passes/draft.h"

using namespace trainer;

TEST_CASE("autodiff appends the gradient of the loss, only where parameters are") {
  Draft draft = classifier();
  CHECK(draft.after({autodiff()}) == R"(
entry train_step
 forward:
  %6: f32[2,4] = linear(@x, @w, @b, -)
  %7: f32[2,4] = relu(%6)
  %8: f32[1] = cross_entropy(%7, @labels, @weights, -, -)
 backward:
  %10: f32[2,4] = cross_entropy_backward(@one, %7, @labels, @weights, -, -)
  %11: f32[2,4] = relu_backward(%10, %7)
  %12: f32[4,3], %13: f32[4] = linear_backward_weights(@x, %11, -)
  output loss = %8
)");
  const Entry& entry = draft.program.entries[0];
  REQUIRE(entry.gradients.size() == 2);  // the parameter that is not used has none
  CHECK(draft.program.tensor(entry.gradients[0].parameter).name == "w");
  CHECK(entry.gradients[0].gradient == 12);
  CHECK(draft.program.tensor(entry.gradients[1].parameter).name == "b");
  CHECK(entry.gradients[1].gradient == 13);
  CHECK(draft.program.tensor(11).role == Role::gradient);
}

TEST_CASE("autodiff refuses an operation between weights and loss that gives no gradient") {
  struct Unheard final : Operation {
    std::string_view name() const override { return "unheard"; }
    std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override { return {inputs[0]}; }
  };
  Draft draft, frozen;
  const TensorId x = draft.input("x", {2, 3});
  draft.loss(draft.build.emit<Unheard>({x, draft.parameter("w", {2, 3})}));
  CHECK_THROWS_WITH(run_passes(draft.program, {autodiff()}),
                    Catch::Matchers::ContainsSubstring("unheard gives no gradient for its input 1"));
  frozen.loss(frozen.build.emit<Unheard>({frozen.input("x", {2, 3})}));
  run_passes(frozen.program, {autodiff()});
  CHECK(frozen.program.entries[0].gradients.empty());
}

TEST_CASE("autodiff sums the gradients of what is read twice") {
  Draft draft;
  const TensorId w = draft.parameter("w", {2, 3});
  const TensorId square = draft.build.emit<Binary>({w, w}, Binary::Kind::mul);
  draft.output(output_name::kLoss,
               draft.build.emit<CrossEntropy>(
                   {square, draft.input("labels", {2}, DType::i32), draft.input("weights", {2})}, 0.0));
  CHECK(draft.after({autodiff()}) == R"(
entry train_step
 forward:
  %1: f32[2,3] = mul(@w, @w)
  %4: f32[1] = cross_entropy(%1, @labels, @weights, -, -)
 backward:
  %6: f32[2,3] = cross_entropy_backward(@one, %1, @labels, @weights, -, -)
  %7: f32[2,3] = mul(%6, @w)
  %8: f32[2,3] = mul(%6, @w)
  %9: f32[2,3] = add(%7, %8)
  output loss = %4
)");
  CHECK(draft.program.entries[0].gradients[0].gradient == 9);
}

TEST_CASE("autodiff without a loss is a mistake of ours") {
  Draft draft;
  draft.output("y", draft.relu(draft.parameter("w", {3})));
  CHECK_THROWS_AS(autodiff().run(draft.program), std::logic_error);
}
