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
  CHECK(draft.after({}) == R"(
entry train_step
 forward:
  %4: f32[4,8] = linear(@x, @w, @b, -)
  %5: f32[4,8] = relu(%4)
  %6: f32[4,8] = linear(%5, @w, -, -)
  %7: f32[4,2] = linear(%6, @v, -, -)
  %10: f32[1] = cross_entropy(%7, @labels, @weights, -, -)
  output logits = %7
  output loss = %10
)");
  CHECK(draft.after({mixed_precision(DType::bf16)}) == R"(
entry train_step
 forward:
  %11: bf16[4,8] = cast(@x) {to=bf16}
  %12: bf16[8,8] = cast(@w) {to=bf16}
  %13: bf16[8] = cast(@b) {to=bf16}
  %4: bf16[4,8] = linear(%11, %12, %13, -)
  %5: bf16[4,8] = relu(%4)
  %6: bf16[4,8] = linear(%5, %12, -, -)
  %14: bf16[2,8] = cast(@v) {to=bf16}
  %7: bf16[4,2] = linear(%6, %14, -, -)
  %15: f32[4,2] = cast(%7) {to=f32}
  %10: f32[1] = cross_entropy(%15, @labels, @weights, -, -)
  output logits = %15
  output loss = %10
)");
  // Gradients of activations are low, those of weights f32: no cast stands between them and the optimiser.
  CHECK(draft.after({autodiff(true)}).substr(draft.after({}).find(" backward:")) == R"( backward:
  %17: f32[4,2] = cross_entropy_backward(@loss_scale, %15, @labels, @weights, -, -)
  %18: bf16[4,2] = cast(%17) {to=bf16}
  %19: bf16[4,8] = linear_backward_data(%18, %14, -, -)
  %20: f32[2,8] = linear_backward_weights(%6, %18, -)
  %21: bf16[4,8] = linear_backward_data(%19, %12, -, -)
  %22: f32[8,8] = linear_backward_weights(%5, %19, -)
  %23: bf16[4,8] = relu_backward(%21, %5)
  %24: f32[8,8], %25: f32[8] = linear_backward_weights(%11, %23, -)
  %26: f32[8,8] = add(%22, %24)
  output logits = %15
  output loss = %10
)");
}

TEST_CASE("a device that reads low logits gets no cast of them, nor of their gradient") {
  struct TakingPlanner final : RefusingPlanner {
    std::optional<std::string> why_not(const OpContext&) const override { return std::nullopt; }
  };
  Draft draft;
  const TensorId x = draft.input("x", {4, 8}), w = draft.parameter("w", {2, 8});
  draft.loss(draft.build.emit<Linear>({x, w, kNone}));
  const TakingPlanner planner;
  CHECK(draft.after({mixed_precision(DType::bf16, &planner), autodiff()}) == R"(
entry train_step
 forward:
  %6: bf16[4,8] = cast(@x) {to=bf16}
  %7: bf16[2,8] = cast(@w) {to=bf16}
  %2: bf16[4,2] = linear(%6, %7, -, -)
  %5: f32[1] = cross_entropy(%2, @labels, @weights, -, -)
 backward:
  %9: bf16[4,2] = cross_entropy_backward(@one, %2, @labels, @weights, -, -)
  %10: f32[2,8] = linear_backward_weights(%6, %9, -)
  output loss = %5
)");
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
  CHECK(draft.after({mixed_precision(DType::bf16)}) == R"(
entry train_step
 forward:
  %12: bf16[2,3,4,4] = cast(@x) {to=bf16}
  %13: bf16[3,3,1,1] = cast(@w) {to=bf16}
  %5: bf16[2,3,4,4] = conv2d(%12, %13, -, -, -) {kernel=1x1 stride=1x1 padding=0x0}
  %6: bf16[2,3,4,4], %7: f32[3], %8: f32[3] = batch_norm(%5, @gamma, @beta, -, -, -, -) {eps=1e-05}
  %9: f32[3] = lerp(@mean, %7, -) {share=0.1}
  assign(@mean, %9)
  %14: f32[2,3,4,4] = cast(%6) {to=f32}
  %10: f32[2,3,4,4] = add(%14, @x)
  %11: f32[2,3,4,4] = relu(%10)
  output y = %11
)");
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
