// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include <algorithm>

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/pool2d.h"
#include "tests/passes/draft.h"

using namespace trainer;

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
  const TensorId sum = norm().inputs[BatchNormBackward::kDy];
  CHECK(norm().inputs[BatchNormBackward::kOtherDy] == kNone);
  run_passes(draft.program, {fuse_gradient_sum()});
  CHECK(sums() == 0);
  CHECK(norm().inputs[BatchNormBackward::kDy] != sum);
  CHECK(norm().inputs[BatchNormBackward::kOtherDy] != kNone);
  CHECK(norm().inputs[BatchNormBackward::kOtherDy] != norm().inputs[BatchNormBackward::kDy]);
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
  %7: f32[2,5,4,4] = conv2d(@x, %8, %9, -, -) {kernel=1x1 stride=1x1 padding=0x0}
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

TEST_CASE("accumulate splits the step into first, next and update") {
  Draft draft = classifier();
  run_passes(draft.program, {autodiff()});
  CHECK(draft.after({accumulate(4)}) == R"(
entry accumulate_first
 forward:
  %6: f32[2,4] = linear(@x, @w, @b, -)
  %7: f32[2,4] = relu(%6)
  %8: f32[1] = cross_entropy(%7, @labels, @weights, -, -)
 backward:
  %10: f32[2,4] = cross_entropy_backward(@one, %7, @labels, @weights, -, -)
  %11: f32[2,4] = relu_backward(%10, %7)
  %12: f32[4,3], %13: f32[4] = linear_backward_weights(@x, %11, -)
  assign(@w.gradient, %12)
  assign(@b.gradient, %13)
  output loss = %8

entry accumulate_next
 forward:
  %14: f32[2,4] = linear(@x, @w, @b, -)
  %15: f32[2,4] = relu(%14)
  %16: f32[1] = cross_entropy(%15, @labels, @weights, -, -)
 backward:
  %17: f32[2,4] = cross_entropy_backward(@one, %15, @labels, @weights, -, -)
  %18: f32[2,4] = relu_backward(%17, %15)
  %19: f32[4,3], %20: f32[4] = linear_backward_weights(@x, %18, -)
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
