// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include <algorithm>

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/blend.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/layer_norm.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/optimizer_steps.h"
#include "core/graph/ops/pool2d.h"
#include "core/passes/liveness.h"
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
  %7: f32[2,3,4,4], %5: f32[3], %6: f32[3] = batch_norm(@x, @gamma, @beta, @skip) {eps=1e-05}
  %8: f32[2,3,4,4] = relu(%7)
  %12: f32[2,3,4,4], %10: f32[3], %11: f32[3] = batch_norm(%8, @gamma, @beta, %8) {eps=1e-05}
  output y = %12
)");
  CHECK(draft.after({fuse_relu()}) == R"(
entry train_step
 forward:
  %8: f32[2,3,4,4], %5: f32[3], %6: f32[3], %13: u8[2,3,4,4] = batch_norm(@x, @gamma, @beta, @skip) {eps=1e-05 relu}
  %12: f32[2,3,4,4], %10: f32[3], %11: f32[3] = batch_norm(%8, @gamma, @beta, %8) {eps=1e-05}
  output y = %12
)");
}

TEST_CASE("a residual stream is added up in the layer normalisation behind it, and its gradients too") {
  Draft draft;
  const TensorId x = draft.parameter("x", {2, 3}), branch = draft.parameter("branch", {2, 3});
  auto norm = [&](TensorId of) { return draft.build.emit<LayerNorm>({of, kNone, kNone, kNone}, 1e-5, true); };
  const TensorId s = draft.build.emit<Binary>({norm(x), branch}, Binary::Kind::add);
  draft.loss(draft.build.emit<Binary>({s, norm(s)}, Binary::Kind::mul));
  run_passes(draft.program, {fuse_residual(), autodiff(), fuse_gradient_sum()});
  std::vector<std::string> names;
  for (const Node& node : draft.program.entries[0].nodes) names.emplace_back(node.op->name());
  CHECK(std::ranges::count(names, "add") == 0);
  CHECK(std::ranges::count(names, "rms_norm") == 2);
  const Node& second = draft.program.entries[0].nodes[1];
  REQUIRE(second.outputs.size() == 3);
  CHECK(second.inputs[3] == branch);
  CHECK(second.outputs[2] == s);
}

TEST_CASE("a sum that something reads before its layer normalisation stays where it is") {
  Draft draft;
  const TensorId x = draft.parameter("x", {2, 3}), branch = draft.parameter("branch", {2, 3});
  const TensorId s = draft.build.emit<Binary>({x, branch}, Binary::Kind::add);
  const TensorId early = draft.relu(s);
  const TensorId y = draft.build.emit<LayerNorm>({s, kNone, kNone, kNone}, 1e-5, false);
  draft.output("y", draft.build.emit<Binary>({early, y}, Binary::Kind::mul));
  const std::string before = to_text(draft.program);
  run_passes(draft.program, {fuse_residual()});
  CHECK(to_text(draft.program) == before);
}

TEST_CASE("recompute makes an activation again before its gradient is read") {
  Draft draft;
  const elementwise::Function silu = elementwise::Silu{};
  TensorId y = draft.input("x", {256, 64});
  for (const char* name : {"u", "v"}) {
    y = draft.build.emit<Unary>({draft.build.emit<Linear>({y, draft.parameter(name, {64, 64}), kNone})},
                                silu);
  }
  const TensorId logits = draft.build.emit<Linear>({y, draft.parameter("w", {4, 64}), kNone});
  const TensorId labels = draft.input("labels", {256}, DType::i32), weights = draft.input("weights", {256});
  draft.output(output_name::kLoss, draft.build.emit<CrossEntropy>({logits, labels, weights}, 0.0));
  run_passes(draft.program, {autodiff()});
  const std::string before = to_text(draft.program);
  run_passes(draft.program, {recompute({Recompute::Kind::size, int64_t{1} << 20})});
  CHECK(to_text(draft.program) == before);  // it is small enough as it is
  CHECK(draft.after({recompute({Recompute::Kind::cheap})}) == R"(
entry train_step
 forward:
  %2: f32[256,64] = linear(@x, @u, -)
  %3: f32[256,64] = silu(%2)
  %5: f32[256,64] = linear(%3, @v, -)
  %6: f32[256,64] = silu(%5)
  %8: f32[256,4] = linear(%6, @w, -)
  %11: f32[1] = cross_entropy(%8, @labels, @weights)
 backward:
  %13: f32[256,4] = cross_entropy_backward(@one, %8, @labels, @weights)
  %14: f32[256,64] = linear_backward_data(%13, @w)
  %15: f32[4,64] = linear_backward_weights(%6, %13)
  %16: f32[256,64] = silu_backward(%14, %5)
  %17: f32[256,64] = linear_backward_data(%16, @v)
  %21: f32[256,64] = silu(%2)
  %18: f32[64,64] = linear_backward_weights(%21, %16)
  %19: f32[256,64] = silu_backward(%17, %2)
  %20: f32[64,64] = linear_backward_weights(@x, %19)
  output loss = %11
)");
}

TEST_CASE("recompute makes what a normalisation gives again from the sum that it gives too") {
  Draft draft;
  TensorId s = draft.input("x", {256, 64});
  for (const char* name : {"t", "u", "v"}) {
    const TensorId y = draft.build.emit<LayerNorm>({s, kNone, kNone, kNone}, 1e-5, true);
    const TensorId branch = draft.build.emit<Linear>({y, draft.parameter(name, {64, 64}), kNone});
    s = draft.build.emit<Binary>({s, branch}, Binary::Kind::add);
  }
  const TensorId logits = draft.build.emit<Linear>({s, draft.parameter("w", {4, 64}), kNone});
  const TensorId labels = draft.input("labels", {256}, DType::i32), weights = draft.input("weights", {256});
  draft.output(output_name::kLoss, draft.build.emit<CrossEntropy>({logits, labels, weights}, 0.0));
  run_passes(draft.program, {fuse_residual(), autodiff()});
  CHECK(draft.after({recompute({Recompute::Kind::cheap})}) == R"(
entry train_step
 forward:
  %1: f32[256,64], %2: f32[256] = rms_norm(@x, -, -, -) {eps=1e-05}
  %4: f32[256,64] = linear(%1, @t, -)
  %6: f32[256,64], %7: f32[256], %5: f32[256,64] = rms_norm(@x, -, -, %4) {eps=1e-05}
  %9: f32[256,64] = linear(%6, @u, -)
  %11: f32[256,64], %12: f32[256], %10: f32[256,64] = rms_norm(%5, -, -, %9) {eps=1e-05}
  %14: f32[256,64] = linear(%11, @v, -)
  %15: f32[256,64] = add(%10, %14)
  %17: f32[256,4] = linear(%15, @w, -)
  %20: f32[1] = cross_entropy(%17, @labels, @weights)
 backward:
  %22: f32[256,4] = cross_entropy_backward(@one, %17, @labels, @weights)
  %23: f32[256,64] = linear_backward_data(%22, @w)
  %24: f32[4,64] = linear_backward_weights(%15, %22)
  %25: f32[256,64] = linear_backward_data(%23, @v)
  %26: f32[64,64] = linear_backward_weights(%11, %23)
  %27: f32[256,64], %28: f32[64], %29: f32[64] = rms_norm_backward(%25, %10, -, %12, -, %23)
  %30: f32[256,64] = linear_backward_data(%27, @u)
  %36: f32[256,64], - = rms_norm(%5, -, -, -) {eps=1e-05}
  %31: f32[64,64] = linear_backward_weights(%36, %27)
  %32: f32[256,64], %33: f32[64], %34: f32[64] = rms_norm_backward(%30, %5, -, %7, -, %27)
  %37: f32[256,64], - = rms_norm(@x, -, -, -) {eps=1e-05}
  %35: f32[64,64] = linear_backward_weights(%37, %32)
  output loss = %20
)");
}

TEST_CASE("of two outputs only one is written over an input that dies") {
  Draft draft;
  const TensorId x = draft.relu(draft.input("x", {8, 16})), residual = draft.input("residual", {8, 16});
  const std::vector<TensorId> all =
      draft.build.emit_all(std::make_shared<LayerNorm>(1e-5, true), {x, kNone, kNone, residual});
  draft.output("y", all[0]);
  draft.output("s", all[2]);
  CHECK(peak_live_bytes(draft.program, draft.program.entries[0]) == 4 * (2 * 8 * 16 + 8));
}

TEST_CASE("fuse_gradient_sum lets two gradients meet in a batch normalisation's own") {
  Draft draft;
  const TensorId gamma = draft.parameter("gamma", {3}), beta = draft.parameter("beta", {3});
  const TensorId x = draft.parameter("x", {2, 3, 4, 4});
  const TensorId y = draft.build.emit_all(std::make_shared<BatchNorm>(1e-5), {x, gamma, beta, kNone})[0];
  const TensorId w = draft.parameter("w", {4, 48}), v = draft.parameter("v", {4, 48});
  const TensorId flat = draft.flatten(y);
  const TensorId one = draft.build.emit<Linear>({flat, w, kNone});
  const TensorId other = draft.build.emit<Linear>({draft.flatten(draft.relu(y)), v, kNone});
  const TensorId logits = draft.build.emit<Binary>({one, other}, Binary::Kind::add);
  const TensorId labels = draft.input("labels", {2}, DType::i32), weights = draft.input("weights", {2});
  draft.output(output_name::kLoss, draft.build.emit<CrossEntropy>({logits, labels, weights}, 0.0));
  run_passes(draft.program, {autodiff()});
  const auto sums = [&] {
    int count = 0;
    for (const Node& node : draft.program.entries[0].nodes) {
      count += node.phase == Phase::backward && node.op->name() == "add";
    }
    return count;
  };
  const auto norm = [&] {
    const auto& nodes = draft.program.entries[0].nodes;
    return *std::find_if(nodes.begin(), nodes.end(),
                         [](const Node& node) { return node.op->name() == "batch_norm_backward"; });
  };
  CHECK(sums() == 1);
  const TensorId sum = norm().inputs[0];
  CHECK(norm().inputs[6] == kNone);
  run_passes(draft.program, {fuse_gradient_sum()});
  CHECK(sums() == 0);
  CHECK(norm().inputs[0] != sum);
  CHECK(norm().inputs[6] != kNone);
  CHECK(norm().inputs[6] != norm().inputs[0]);
}

TEST_CASE("fold_batch_norm gives the convolution other weights") {
  Draft draft;
  const TensorId x = draft.input("x", {2, 3, 4, 4}), w = draft.parameter("w", {5, 3, 1, 1});
  std::vector<TensorId> given{draft.build.emit<Conv2d>({x, w, kNone}, Conv2dGeometry{})};
  for (const char* name : {"gamma", "beta", "mean", "variance"}) given.push_back(draft.parameter(name, {5}));
  draft.output("y", draft.build.emit<BatchNormInference>(given, 1e-5));
  const std::string before = to_text(draft.program);
  run_passes(draft.program, {fold_batch_norm()});
  CHECK(to_text(draft.program) == before);  // it has yet to be differentiated
  for (Tensor& tensor : draft.program.tensors) tensor.frozen = tensor.role == Role::parameter;
  CHECK(draft.after({fold_batch_norm()}) == R"(
entry train_step
 forward:
  %8: f32[5,3,1,1], %9: f32[5] = fold_batch_norm(@w, -, @gamma, @beta, @mean, @variance) {eps=1e-05}
  %7: f32[2,5,4,4] = conv2d(@x, %8, %9) {kernel=1x1 stride=1x1 padding=0x0}
  output y = %7
)");
}

TEST_CASE("what is frozen gets no gradient, and what only leads there computes none") {
  Draft draft;
  const TensorId labels = draft.input("labels", {2}, DType::i32), weights = draft.input("weights", {2});
  TensorId y = draft.input("x", {2, 3, 4, 4});
  const TensorId w = draft.parameter("w", {3, 3, 1, 1}), b = draft.parameter("b", {3});
  const TensorId gamma = draft.parameter("gamma", {3}), beta = draft.parameter("beta", {3});
  const TensorId v = draft.parameter("v", {5, 48}), c = draft.parameter("c", {5});
  y = draft.build.emit<Conv2d>({y, w, b}, Conv2dGeometry{});
  y = draft.relu(draft.build.emit_all(std::make_shared<BatchNorm>(1e-5), {y, gamma, beta, kNone})[0]);
  y = draft.build.emit<Linear>({draft.flatten(y), v, c});
  draft.output(output_name::kLoss, draft.build.emit<CrossEntropy>({y, labels, weights}, 0.0));
  auto backward = [&](const std::vector<TensorId>& frozen) {
    Program program = draft.program;
    for (TensorId id : frozen) program.tensors[static_cast<size_t>(id)].frozen = true;
    run_passes(program, {autodiff()});
    std::vector<std::string> names;
    for (const Node& node : program.entries[0].nodes) {
      if (node.phase == Phase::backward) names.emplace_back(node.op->name());
    }
    CHECK(program.entries[0].gradients.size() == 6 - frozen.size());
    return names;
  };
  const std::vector<std::string> head{"cross_entropy_backward", "linear_backward_weights"};
  CHECK(backward({w, b, gamma, beta}) == head);
  CHECK(backward({w, b, gamma, beta, c}) == head);
  CHECK(backward({w, b, gamma, beta, v}) == head);
  CHECK(backward({w, b}) == std::vector<std::string>{"cross_entropy_backward", "linear_backward_data",
                                                     "linear_backward_weights", "reshape", "relu_backward",
                                                     "batch_norm_backward"});
  CHECK(backward({v, c}) == std::vector<std::string>{"cross_entropy_backward", "linear_backward_data",
                                                     "reshape", "relu_backward", "batch_norm_backward",
                                                     "conv2d_backward_weights"});
  CHECK(backward({}).size() == 7);
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
  %4: f32[2,5,4,4] = conv2d(@x, @w, -) {kernel=1x1 stride=1x1 padding=0x0 relu}
  %5: f32[2,80] = reshape(%4)
  %7: f32[2,6] = linear(%5, @v, -) {relu}
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
  %5: f32[2,3,4,4], %3: f32[3], %4: f32[3], %9: u8[2,3,4,4] = batch_norm(@x, @gamma, @gamma, -) {eps=1e-05 relu ceiling=6}
  %7: f32[2,5,4,4] = conv2d(%5, @w, -) {kernel=1x1 stride=1x1 padding=0x0}
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
  %3: f32[2,5] = linear(@x, @w, -) {relu}
  %4: f32[2,5] = relu(%3)
  output y = %4
)");
}

namespace {

/// logits = x wT + b, and their cross entropy.
Draft classifier() {
  Draft draft;
  const TensorId x = draft.input("x", {2, 3}), labels = draft.input("labels", {2}, DType::i32);
  const TensorId weights = draft.input("weights", {2});
  const TensorId w = draft.parameter("w", {4, 3}), b = draft.parameter("b", {4});
  draft.parameter("unused", {7});
  const TensorId logits = draft.relu(draft.build.emit<Linear>({x, w, b}));
  draft.output(output_name::kLoss, draft.build.emit<CrossEntropy>({logits, labels, weights}, 0.0));
  return draft;
}

}  // namespace

TEST_CASE("autodiff appends the gradient of the loss, only where parameters are") {
  Draft draft = classifier();
  CHECK(draft.after({autodiff()}) == R"(
entry train_step
 forward:
  %6: f32[2,4] = linear(@x, @w, @b)
  %7: f32[2,4] = relu(%6)
  %8: f32[1] = cross_entropy(%7, @labels, @weights)
 backward:
  %10: f32[2,4] = cross_entropy_backward(@one, %7, @labels, @weights)
  %11: f32[2,4] = relu_backward(%10, %7)
  %12: f32[4,3], %13: f32[4] = linear_backward_weights(@x, %11)
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
  %4: f32[1] = cross_entropy(%1, @labels, @weights)
 backward:
  %6: f32[2,3] = cross_entropy_backward(@one, %1, @labels, @weights)
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

TEST_CASE("accumulate splits the step into first, next and update") {
  Draft draft = classifier();
  run_passes(draft.program, {autodiff()});
  CHECK(draft.after({accumulate(4)}) == R"(
entry accumulate_first
 forward:
  %6: f32[2,4] = linear(@x, @w, @b)
  %7: f32[2,4] = relu(%6)
  %8: f32[1] = cross_entropy(%7, @labels, @weights)
 backward:
  %10: f32[2,4] = cross_entropy_backward(@one, %7, @labels, @weights)
  %11: f32[2,4] = relu_backward(%10, %7)
  %12: f32[4,3], %13: f32[4] = linear_backward_weights(@x, %11)
  assign(@w.gradient, %12)
  assign(@b.gradient, %13)
  output loss = %8

entry accumulate_next
 forward:
  %14: f32[2,4] = linear(@x, @w, @b)
  %15: f32[2,4] = relu(%14)
  %16: f32[1] = cross_entropy(%15, @labels, @weights)
 backward:
  %17: f32[2,4] = cross_entropy_backward(@one, %15, @labels, @weights)
  %18: f32[2,4] = relu_backward(%17, %15)
  %19: f32[4,3], %20: f32[4] = linear_backward_weights(@x, %18)
  %23: f32[4,3] = add(@w.gradient, %19)
  assign(@w.gradient, %23)
  %24: f32[4] = add(@b.gradient, %20)
  assign(@b.gradient, %24)
  output loss = %16

entry update
)");
  const Entry& update = draft.program.entry(entry_name::kUpdate);
  REQUIRE(update.gradients.size() == 2);
  CHECK(draft.program.tensor(update.gradients[0].gradient).name == "w.gradient");
  CHECK(draft.program.tensor(update.gradients[0].gradient).role == Role::gradient_sum);
}

TEST_CASE("accumulate of one micro-batch changes nothing") {
  Draft draft = classifier();
  run_passes(draft.program, {autodiff()});
  const std::string before = to_text(draft.program);
  run_passes(draft.program, {accumulate(1)});
  CHECK(to_text(draft.program) == before);
}

TEST_CASE("dead_code keeps what outputs and assigns need, and drops second outputs that nobody reads") {
  Draft draft;
  const TensorId x = draft.input("x", {1, 2, 4, 4}), s = draft.parameter("s", {1, 2, 4, 4});
  const auto pooled = draft.build.emit_all(
      std::make_shared<MaxPool2d>(Conv2dGeometry{.kernel = {2, 2}, .stride = {2, 2}}), {x});
  draft.relu(pooled[0]);  // read by nobody
  const TensorId unused = draft.relu(x);
  draft.build.emit<Binary>({unused, x}, Binary::Kind::mul);
  draft.build.assign(s, draft.relu(s));
  draft.output("y", pooled[0]);
  CHECK(draft.after({dead_code()}) == R"(
entry train_step
 forward:
  %2: f32[1,2,2,2], - = max_pool2d(@x) {kernel=2x2 stride=2x2 padding=0x0}
  %7: f32[1,2,4,4] = relu(@s)
  assign(@s, %7)
  output y = %2
)");
}

TEST_CASE("passes are observed by name, in order") {
  Draft draft = classifier();
  std::vector<std::string> seen;
  run_passes(draft.program, {fuse_relu(), autodiff(), dead_code()},
             [&](const std::string& pass, const Program&) { seen.push_back(pass); });
  CHECK(seen == std::vector<std::string>{"fuse_relu", "autodiff", "dead_code"});
  CHECK(fuse_relu().optional);
  CHECK_FALSE(autodiff().optional);
  CHECK_FALSE(dead_code().optional);
}
