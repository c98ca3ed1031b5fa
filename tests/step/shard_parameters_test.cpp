// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/ops/all_gather.h"
#include "core/optim/optimizer.h"
#include "tests/passes/draft.h"

namespace trainer {
namespace {

/// relu(relu(x aT) bT) and its loss: the gradient of the first product reads b.
Draft two_products() {
  Draft draft;
  const TensorId x = draft.input("x", {2, 3}), a = draft.parameter("a", {5, 3}),
                 b = draft.parameter("b", {4, 5});
  const TensorId y = draft.relu(draft.build.emit<Linear>({x, a, kNone}));
  draft.loss(draft.build.emit<Linear>({y, b, kNone}));
  return draft;
}

std::vector<Phase> phases_of(const Draft& draft, std::string_view op) {
  std::vector<Phase> found;
  for (const Node& node : draft.program.entries[0].nodes) {
    if (node.op->name() == op) found.push_back(node.phase);
  }
  return found;
}

}  // namespace

TEST_CASE("shard_parameters: casts travel in their own type, gradients in f32") {
  Draft draft = two_products();
  draft.run({mixed_precision(DType::bf16), shard_parameters(3), autodiff()});
  CHECK(draft.calls("all_gather") ==
        Calls{"bf16 all_gather(cast) {ranks=3}", "bf16 all_gather(cast) {ranks=3}"});
  CHECK(draft.calls("reduce_scatter").size() == 2);
  for (const ParameterGradient& pair : draft.program.entries[0].gradients) {
    CHECK(draft.program.spec(pair.gradient) == draft.program.spec(pair.parameter));
    CHECK(draft.program.spec(pair.gradient).dtype == DType::f32);
  }
}

TEST_CASE("shard_parameters: parts are equal, and what belongs to a parameter is cut as it is") {
  Draft draft = two_products();
  draft.run({shard_parameters(3)});
  const TensorId a = draft.program.find("a"), moment = draft.program.beside(a, ".exp_avg", Role::optimizer);
  CHECK(draft.program.spec(a).shape == Shape{16});  // 15 elements: 5 for each rank, in multiples of 16
  CHECK(whole_shape(draft.program.tensor(a)) == Shape{5, 3});
  CHECK(draft.program.tensor(moment).part == draft.program.tensor(a).part);
  CHECK(draft.program.spec(moment) == draft.program.spec(a));
}

TEST_CASE(
    "shard_parameters: a parameter with several readers is gathered once, and its gradient scattered once") {
  Draft draft;
  const TensorId x = draft.input("x", {2, 4}), w = draft.parameter("w", {4, 4});
  draft.loss(draft.build.emit<Linear>({draft.build.emit<Linear>({x, w, kNone}), w, kNone}));
  draft.run({shard_parameters(2), autodiff()});
  CHECK(draft.calls("all_gather").size() == 1);
  CHECK(draft.calls("reduce_scatter") == Calls{"reduce_scatter(add) {ranks=2}"});
}

TEST_CASE("gather_again: the backward part reads parameters that it gathers itself") {
  Draft draft = two_products();
  draft.run({shard_parameters(3), autodiff()});
  CHECK(phases_of(draft, "all_gather") == std::vector<Phase>{Phase::forward, Phase::forward});
  draft.run({gather_again()});
  // Only the gradient of the second product's input reads weights.
  CHECK(phases_of(draft, "all_gather") ==
        std::vector<Phase>{Phase::forward, Phase::forward, Phase::backward});
  CHECK_FALSE(draft.is_changed_by({gather_again()}));
}

TEST_CASE("data_parallel leaves the gradients of parts alone") {
  Draft draft = two_products();
  draft.run({shard_parameters(2), autodiff(), data_parallel(2, 1, int64_t{1} << 20)});
  CHECK(draft.calls("all_reduce_start") == Calls{"all_reduce_start(cross_entropy) {bucket=0}"});
}

}  // namespace trainer
