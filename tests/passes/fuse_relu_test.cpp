// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"
#include "tests/passes/draft.h"

using namespace trainer;

TEST_CASE("a residual and a relu become part of the batch normalisation") {
  Draft draft;
  const TensorId x = draft.input("x", {2, 3, 4, 4}), skip = draft.parameter("skip", {2, 3, 4, 4});
  const TensorId gamma = draft.parameter("gamma", {3}), beta = draft.parameter("beta", {3});
  auto norm = [&](TensorId of) {
    return draft.build.emit_all(std::make_shared<BatchNorm>(1e-5), {of, gamma, beta, kNone})[0];
  };
  const TensorId sum = draft.build.emit<Binary>({skip, norm(x)}, Binary::Kind::add);
  const TensorId y = draft.relu(sum);
  const TensorId tail = draft.build.emit<Binary>({norm(y), y}, Binary::Kind::add);
  draft.output("y", tail);
  CHECK(draft.after({fuse_residual()}) == R"(
entry train_step
 forward:
  %7: f32[2,3,4,4], %5: f32[3], %6: f32[3] = batch_norm(@x, @gamma, @beta, @skip, -, -, -) {eps=1e-05}
  %8: f32[2,3,4,4] = relu(%7)
  %12: f32[2,3,4,4], %10: f32[3], %11: f32[3] = batch_norm(%8, @gamma, @beta, %8, -, -, -) {eps=1e-05}
  output y = %12
)");
  CHECK(draft.after({fuse_relu()}) == R"(
entry train_step
 forward:
  %8: f32[2,3,4,4], %5: f32[3], %6: f32[3], %13: u8[2,3,4,4] = batch_norm(@x, @gamma, @beta, @skip, -, -, -) {eps=1e-05 relu}
  %12: f32[2,3,4,4], %10: f32[3], %11: f32[3] = batch_norm(%8, @gamma, @beta, %8, -, -, -) {eps=1e-05}
  output y = %12
)");
}

TEST_CASE("fuse_relu computes a relu with the layer before it") {
  Draft draft;
  const TensorId x = draft.input("x", {2, 3, 4, 4});
  const TensorId w = draft.parameter("w", {5, 3, 1, 1}), v = draft.parameter("v", {6, 80});
  const TensorId image = draft.relu(draft.build.emit<Conv2d>({x, w, kNone}, Conv2dGeometry{}));
  draft.output("y", draft.relu(draft.build.emit<Linear>({draft.flatten(image), v, kNone})));
  CHECK(draft.after({fuse_relu()}) == R"(
entry train_step
 forward:
  %4: f32[2,5,4,4] = conv2d(@x, @w, -, -, -) {kernel=1x1 stride=1x1 padding=0x0 relu}
  %5: f32[2,80] = reshape(%4)
  %7: f32[2,6] = linear(%5, @v, -, -) {relu}
  output y = %7
)");
}

TEST_CASE(
    "fuse_relu leaves a relu alone whose input is read elsewhere, is an output or went through something") {
  auto untouched = [](const auto& finish) {
    Draft draft;
    const TensorId y =
        draft.build.emit<Linear>({draft.input("x", {2, 8}), draft.parameter("w", {5, 8}), kNone});
    finish(draft, y);
    const std::string before = to_text(draft.program);
    run_passes(draft.program, {fuse_relu()});
    CHECK(to_text(draft.program) == before);
  };
  untouched([](Draft& draft, TensorId y) {
    draft.output("sum", draft.build.emit<Binary>({draft.relu(y), y}, Binary::Kind::add));
  });
  untouched([](Draft& draft, TensorId y) {
    draft.output("y", y);
    draft.output("relu", draft.relu(y));
  });
  untouched([](Draft& draft, TensorId y) {
    draft.output("relu",
                 draft.relu(draft.build.emit<Unary>({y}, elementwise::Function(elementwise::Tanh{}))));
  });
}

TEST_CASE("fuse_relu computes a relu6 with a normalisation, which keeps where its gradient passes") {
  Draft draft;
  const TensorId x = draft.input("x", {2, 3, 4, 4}), gamma = draft.parameter("gamma", {3});
  auto relu6 = [&](TensorId of) {
    return draft.build.emit<Unary>({of}, elementwise::Function(elementwise::Relu6{}));
  };
  const TensorId norm = draft.build.emit_all(std::make_shared<BatchNorm>(1e-5), {x, gamma, gamma, kNone})[0];
  const TensorId image =
      draft.build.emit<Conv2d>({relu6(norm), draft.parameter("w", {5, 3, 1, 1}), kNone}, Conv2dGeometry{});
  draft.output("y", relu6(image));
  CHECK(draft.after({fuse_relu()}) == R"(
entry train_step
 forward:
  %5: f32[2,3,4,4], %3: f32[3], %4: f32[3], %9: u8[2,3,4,4] = batch_norm(@x, @gamma, @gamma, -, -, -, -) {eps=1e-05 relu ceiling=6}
  %7: f32[2,5,4,4] = conv2d(%5, @w, -, -, -) {kernel=1x1 stride=1x1 padding=0x0}
  %8: f32[2,5,4,4] = relu6(%7)
  output y = %8
)");
}

TEST_CASE("a second relu after a fused one stays") {
  Draft draft;
  const TensorId y =
      draft.build.emit<Linear>({draft.input("x", {2, 8}), draft.parameter("w", {5, 8}), kNone});
  draft.output("y", draft.relu(draft.relu(y)));
  CHECK(draft.after({fuse_relu()}) == R"(
entry train_step
 forward:
  %3: f32[2,5] = linear(@x, @w, -, -) {relu}
  %4: f32[2,5] = relu(%3)
  output y = %4
)");
}
