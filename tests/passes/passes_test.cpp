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
  draft.loss(draft.build.emit<Binary>({one, other}, Binary::Kind::add));
  run_passes(draft.program, {autodiff()});
  const auto norm = [&] {
    const auto& nodes = draft.program.entries[0].nodes;
    return *std::find_if(nodes.begin(), nodes.end(),
                         [](const Node& node) { return node.op->name() == "batch_norm_backward"; });
  };
  CHECK(draft.calls("add").size() == 2);  // the network's own and one of gradients
  const TensorId sum = norm().inputs[BatchNormBackward::kDy];
  CHECK(norm().inputs[BatchNormBackward::kOtherDy] == kNone);
  run_passes(draft.program, {fuse_gradient_sum()});
  CHECK(draft.calls("add").size() == 1);
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
  CHECK_FALSE(draft.is_changed_by({fold_batch_norm()}));  // it has yet to be differentiated
  for (Tensor& tensor : draft.program.tensors) tensor.frozen = tensor.role == Role::parameter;
  CHECK(draft.run({fold_batch_norm()}).calls() ==
        Calls{"fold_batch_norm(w, -, gamma, beta, mean, variance) {eps=1e-05}",
              "conv2d(x, fold_batch_norm, fold_batch_norm.1, -, -, -) {kernel=1x1 stride=1x1 padding=0x0}"});
}

TEST_CASE("what is frozen gets no gradient, and what only leads there computes none") {
  Draft draft;
  TensorId y = draft.input("x", {2, 3, 4, 4});
  const TensorId w = draft.parameter("w", {3, 3, 1, 1}), b = draft.parameter("b", {3});
  const TensorId gamma = draft.parameter("gamma", {3}), beta = draft.parameter("beta", {3});
  const TensorId v = draft.parameter("v", {5, 48}), c = draft.parameter("c", {5});
  y = draft.build.emit<Conv2d>({y, w, b}, Conv2dGeometry{});
  y = draft.relu(draft.build.emit_all(std::make_shared<BatchNorm>(1e-5), {y, gamma, beta, kNone})[0]);
  draft.loss(draft.build.emit<Linear>({draft.flatten(y), v, c}));
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
  draft.run({accumulate(4)});
  CHECK(
      draft.calls("assign", entry_name::kAccumulateFirst) ==
      Calls{"assign(w.gradient, linear_backward_weights)", "assign(b.gradient, linear_backward_weights.1)"});
  CHECK(draft.calls("add", entry_name::kAccumulateNext) ==
        Calls{"add(w.gradient, linear_backward_weights)", "add(b.gradient, linear_backward_weights.1)"});
  CHECK(draft.calls("assign", entry_name::kAccumulateNext) ==
        Calls{"assign(w.gradient, add)", "assign(b.gradient, add)"});
  for (const char* entry : {entry_name::kAccumulateFirst, entry_name::kAccumulateNext}) {
    CHECK(draft.calls("cross_entropy", entry).size() == 1);
    CHECK(draft.program.entry(entry).output(output_name::kLoss) != kNone);
  }
  CHECK(draft.calls({}, entry_name::kUpdate).empty());
  const Entry& update = draft.program.entry(entry_name::kUpdate);
  REQUIRE(update.gradients.size() == 2);
  CHECK(draft.program.tensor(update.gradients[0].gradient).name == "w.gradient");
  CHECK(draft.program.tensor(update.gradients[0].gradient).role == Role::gradient_sum);
}

TEST_CASE("accumulate of one micro-batch changes nothing") {
  Draft draft = classifier();
  CHECK_FALSE(draft.run({autodiff()}).is_changed_by({accumulate(1)}));
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
  CHECK(draft.run({dead_code()}).calls() ==
        Calls{"max_pool2d(x) {kernel=2x2 stride=2x2 padding=0x0}", "relu(s)", "assign(s, relu)"});
  CHECK(draft.program.entries[0].nodes[0].outputs == std::vector<TensorId>{pooled[0], kNone});
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
