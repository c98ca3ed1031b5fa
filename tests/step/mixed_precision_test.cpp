// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/linear.h"
#include "tests/passes/draft.h"

using namespace trainer;

TEST_CASE("products are computed in the low type, each weight being cast once, and the loss in f32") {
  Draft draft;
  const TensorId x = draft.input("x", {4, 8}), w = draft.parameter("w", {8, 8}),
                 v = draft.parameter("v", {2, 8});
  TensorId y = draft.relu(draft.build.emit<Linear>({x, w, draft.parameter("b", {8})}));
  y = draft.build.emit<Linear>({y, w, kNone});  // the same weights again
  const TensorId logits = draft.build.emit<Linear>({y, v, kNone});
  draft.program.entries[0].outputs.push_back({output_name::kLogits, logits});
  draft.loss(logits);
  CHECK(draft.run({mixed_precision(DType::bf16)}).calls() ==
        Calls{"bf16 cast(x) {to=bf16}", "bf16 cast(w) {to=bf16}", "bf16 cast(b) {to=bf16}",
              "bf16 linear(cast, cast, cast, -)", "bf16 relu(linear)", "bf16 linear(relu, cast, -, -)",
              "bf16 cast(v) {to=bf16}", "bf16 linear(linear, cast, -, -)", "cast(linear) {to=f32}",
              "cross_entropy(cast, labels, weights, -, -)"});
  CHECK(draft.program.spec(draft.program.entries[0].output(output_name::kLogits)).dtype == DType::f32);
  // Gradients of activations are low, those of weights f32: there is no cast between them and the optimiser.
  draft.run({autodiff(true)});
  CHECK(draft.calls("cast").size() == 6);
  CHECK(draft.calls("cross_entropy_backward") == Calls{"cross_entropy_backward(loss_scale, cast, labels, "
                                                       "weights, -, -, cross_entropy.1, cross_entropy.2)"});
  CHECK(draft.calls("linear_backward_data") ==
        Calls{"bf16 linear_backward_data(cast, cast, -, -)",
              "bf16 linear_backward_data(linear_backward_data, cast, -, -)"});
  CHECK(draft.calls("relu_backward") == Calls{"bf16 relu_backward(linear_backward_data, relu)"});
  CHECK(draft.calls("linear_backward_weights") ==
        Calls{"linear_backward_weights(linear, cast, -)",
              "linear_backward_weights(relu, linear_backward_data, -)",
              "linear_backward_weights(cast, relu_backward, -)"});
  CHECK(draft.calls("add") == Calls{"add(linear_backward_weights, linear_backward_weights)"});
}

TEST_CASE("a device that reads low logits gets no cast of them, nor of their gradient") {
  struct TakingPlanner final : RefusingPlanner {
    std::optional<std::string> why_not(const OpContext&) const override { return std::nullopt; }
  };
  Draft draft;
  const TensorId x = draft.input("x", {4, 8}), w = draft.parameter("w", {2, 8});
  draft.loss(draft.build.emit<Linear>({x, w, kNone}));
  const TakingPlanner planner;
  CHECK(
      draft.run({mixed_precision(DType::bf16, &planner), autodiff()}).calls() ==
      Calls{
          "bf16 cast(x) {to=bf16}", "bf16 cast(w) {to=bf16}", "bf16 linear(cast, cast, -, -)",
          "cross_entropy(linear, labels, weights, -, -)",
          "bf16 cross_entropy_backward(one, linear, labels, weights, -, -, cross_entropy.1, cross_entropy.2)",
          "linear_backward_weights(cast, cross_entropy_backward, -)"});
}

TEST_CASE("a batch normalisation takes low activations and keeps parameters and statistics in f32") {
  Draft draft;
  const TensorId x = draft.input("x", {2, 3, 4, 4}), w = draft.parameter("w", {3, 3, 1, 1});
  const TensorId gamma = draft.parameter("gamma", {3}), beta = draft.parameter("beta", {3});
  const TensorId mean = draft.program.persistent("mean", {{3}, DType::f32}, Role::state, {});
  const TensorId y = draft.build.emit<Conv2d>({x, w, kNone}, Conv2dGeometry{});
  const auto norm = draft.build.emit_all(std::make_shared<BatchNorm>(1e-5), {y, gamma, beta, kNone});
  draft.build.assign(mean, draft.build.emit<Lerp>({mean, norm[1]}, 0.1));
  // f32 meets bf16: the widest type, as in PyTorch.
  const TensorId sum = draft.build.emit<Binary>({norm[0], x}, Binary::Kind::add);
  draft.program.entries[0].outputs.push_back({"y", draft.relu(sum)});
  CHECK(draft.run({mixed_precision(DType::bf16)}).calls() ==
        Calls{"bf16 cast(x) {to=bf16}", "bf16 cast(w) {to=bf16}",
              "bf16 conv2d(cast, cast, -, -, -, -) {kernel=1x1 stride=1x1 padding=0x0}",
              "bf16 batch_norm(conv2d, gamma, beta, -, -, -, -) {eps=1e-05}",
              "lerp(mean, batch_norm.1, -) {share=0.1}", "assign(mean, lerp)", "cast(batch_norm) {to=f32}",
              "add(cast, x)", "relu(add)"});
}

TEST_CASE("operations refuse mixtures of types that no backend computes") {
  Draft draft;
  auto low = [&](const std::string& name, const Shape& shape) {
    return draft.input(name, shape, DType::bf16);
  };
  const TensorId x = low("x", {2, 3, 4, 4}), w = draft.parameter("w", {3, 3, 1, 1});
  CHECK_THROWS_WITH(draft.build.emit<Conv2d>({x, w, kNone}, Conv2dGeometry{}),
                    Catch::Matchers::ContainsSubstring("input 1 must be bf16, got f32"));
  const TensorId gamma = low("gamma", {3});
  CHECK_THROWS_WITH(draft.build.emit<BatchNorm>({x, gamma, gamma, kNone}, 1e-5),
                    Catch::Matchers::ContainsSubstring("input 1 must be f32, got bf16"));
}
