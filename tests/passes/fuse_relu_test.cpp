// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"
#include "core/passes/uses.h"
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
  CHECK(draft.run({fuse_residual()}).calls() ==
        Calls{"batch_norm(x, gamma, beta, skip, -, -, -) {eps=1e-05}", "relu(batch_norm)",
              "batch_norm(relu, gamma, beta, relu, -, -, -) {eps=1e-05}"});
  CHECK(draft.run({fuse_relu()}).calls() ==
        Calls{"batch_norm(x, gamma, beta, skip, -, -, -) {eps=1e-05 relu}",
              "batch_norm(batch_norm, gamma, beta, batch_norm, -, -, -) {eps=1e-05}"});
  CHECK(draft.program.spec(draft.program.entries[0].nodes[0].outputs[3]).dtype == DType::u8);  // its mask
}

TEST_CASE("fuse_relu computes a relu with the layer before it") {
  Draft draft;
  const TensorId x = draft.input("x", {2, 3, 4, 4});
  const TensorId w = draft.parameter("w", {5, 3, 1, 1}), v = draft.parameter("v", {6, 80});
  const TensorId image = draft.relu(draft.build.emit<Conv2d>({x, w, kNone}, Conv2dGeometry{}));
  draft.output("y", draft.relu(draft.build.emit<Linear>({draft.flatten(image), v, kNone})));
  CHECK(draft.run({fuse_relu()}).calls() ==
        Calls{"conv2d(x, w, -, -, -, -) {kernel=1x1 stride=1x1 padding=0x0 relu}", "reshape(conv2d)",
              "linear(reshape, v, -, -) {relu}"});
}

TEST_CASE(
    "fuse_relu leaves a relu alone whose input is read elsewhere, is an output or went through something") {
  auto untouched = [](const auto& finish) {
    Draft draft;
    const TensorId y =
        draft.build.emit<Linear>({draft.input("x", {2, 8}), draft.parameter("w", {5, 8}), kNone});
    finish(draft, y);
    CHECK_FALSE(draft.is_changed_by({fuse_relu()}));
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
  CHECK(draft.run({fuse_relu()}).calls() ==
        Calls{"batch_norm(x, gamma, gamma, -, -, -, -) {eps=1e-05 relu ceiling=6}",
              "conv2d(batch_norm, w, -, -, -, -) {kernel=1x1 stride=1x1 padding=0x0}", "relu6(conv2d)"});
}

TEST_CASE("a second relu after a fused one stays") {
  Draft draft;
  const TensorId y =
      draft.build.emit<Linear>({draft.input("x", {2, 8}), draft.parameter("w", {5, 8}), kNone});
  draft.output("y", draft.relu(draft.relu(y)));
  CHECK(draft.run({fuse_relu()}).calls() == Calls{"linear(x, w, -, -) {relu}", "relu(linear)"});
}

TEST_CASE("fuse_relu computes a relu or relu6 with a sum, which then is no sum of gradients") {
  Draft draft;
  const TensorId x = draft.input("x", {2, 8}), other = draft.parameter("other", {2, 8});
  const TensorId first = draft.relu(draft.build.emit<Binary>({x, other}, Binary::Kind::add));
  const TensorId product = draft.relu(draft.build.emit<Binary>({first, other}, Binary::Kind::mul));
  const TensorId sum = draft.build.emit<Binary>({product, x}, Binary::Kind::add);
  draft.output("y", draft.build.emit<Unary>({sum}, elementwise::Function(elementwise::Relu6{})));
  CHECK(draft.run({fuse_relu()}).calls() ==
        Calls{"add(x, other) {relu}", "mul(add, other)", "relu(mul)", "add(relu, x) {relu ceiling=6}"});
  CHECK_FALSE(is_sum(draft.program.entries[0].nodes[0]));
}
