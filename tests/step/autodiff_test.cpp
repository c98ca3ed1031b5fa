// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include <stdexcept>

#include "core/graph/ops/binary.h"
#include "tests/passes/draft.h"

using namespace trainer;

TEST_CASE("autodiff appends the gradient of the loss, only where parameters are") {
  Draft draft = classifier();
  CHECK(draft.run({autodiff()}).calls() ==
        Calls{"linear(x, w, b, -)", "relu(linear)", "cross_entropy(relu, labels, weights, -, -)",
              "cross_entropy_backward(one, relu, labels, weights, -, -, cross_entropy.1, cross_entropy.2)",
              "relu_backward(cross_entropy_backward, relu)", "linear_backward_weights(x, relu_backward, -)"});
  const Entry& entry = draft.program.entries[0];
  REQUIRE(entry.gradients.size() == 2);  // the parameter that is not used has none
  CHECK(draft.program.tensor(entry.gradients[0].parameter).name == "w");
  CHECK(draft.program.tensor(entry.gradients[1].parameter).name == "b");
  const Node& last = entry.nodes.back();
  CHECK(last.outputs == std::vector<TensorId>{entry.gradients[0].gradient, entry.gradients[1].gradient});
  CHECK(draft.program.tensor(last.inputs[LinearBackwardWeights::kDy]).role == Role::gradient);
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
  draft.loss(draft.build.emit<Binary>({w, w}, Binary::Kind::mul));
  CHECK(draft.run({autodiff()}).calls("mul") ==
        Calls{"mul(w, w)", "mul(cross_entropy_backward, w)", "mul(cross_entropy_backward, w)"});
  CHECK(draft.calls("add") == Calls{"add(mul, mul)"});
  CHECK(draft.program.entries[0].gradients[0].gradient == draft.program.entries[0].nodes.back().outputs[0]);
}

TEST_CASE("autodiff without a loss is a mistake of ours") {
  Draft draft;
  draft.output("y", draft.relu(draft.parameter("w", {3})));
  CHECK_THROWS_AS(autodiff().run(draft.program), std::logic_error);
}
