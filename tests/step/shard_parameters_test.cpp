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
  draft.run({mixed_precision(DType::bf16), shard_parameters({.shards = 3}), autodiff()});
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
  draft.run({shard_parameters({.shards = 3})});
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
  draft.run({shard_parameters({.shards = 2}), autodiff()});
  CHECK(draft.calls("all_gather").size() == 1);
  CHECK(draft.calls("reduce_scatter") == Calls{"reduce_scatter(add) {ranks=2}"});
}

TEST_CASE("gather_again: the backward part reads parameters that it gathers itself") {
  Draft draft = two_products();
  draft.run({shard_parameters({.shards = 3}), autodiff()});
  CHECK(phases_of(draft, "all_gather") == std::vector<Phase>{Phase::forward, Phase::forward});
  draft.run({gather_again()});
  // Only the gradient of the second product's input reads weights.
  CHECK(phases_of(draft, "all_gather") ==
        std::vector<Phase>{Phase::forward, Phase::forward, Phase::backward});
  CHECK_FALSE(draft.is_changed_by({gather_again()}));
}

TEST_CASE("data_parallel leaves the gradients of parts alone") {
  Draft draft = two_products();
  draft.run(
      {shard_parameters({.shards = 2}), autodiff(), data_parallel({.shards = 2}, {1, 1}, int64_t{1} << 20)});
  CHECK(draft.calls("all_reduce_start") == Calls{"all_reduce_start(cross_entropy) {number=0}"});
}

TEST_CASE("data_parallel adds parts of gradients up between the copies") {
  Draft draft = two_products();
  draft.run({shard_parameters({.replicas = 3, .shards = 2}), autodiff(),
             data_parallel({.replicas = 3, .shards = 2}, {1, 1, 1, 1, 1, 1}, int64_t{1} << 20)});
  CHECK(draft.calls("all_reduce_start") ==
        Calls{"all_reduce_start(cross_entropy) {number=1}",
              "all_reduce_start(reduce_scatter, reduce_scatter) {number=0 axis=replicas}"});
  for (const ParameterGradient& pair : draft.program.entries[0].gradients)
    CHECK(draft.program.spec(pair.gradient) == draft.program.spec(pair.parameter));
}

TEST_CASE("overlap_collectives: a bucket is gathered while the one before is read") {
  Draft draft = two_products();
  draft.run({mixed_precision(DType::bf16), shard_parameters({.shards = 2}), autodiff(), gather_again(),
             overlap_collectives(1)});
  std::vector<std::string> names;
  for (const Node& node : draft.program.entries[0].nodes) names.emplace_back(node.op->name());
  const auto after = [&](const std::string& name, size_t from) {
    const auto found = std::find(names.begin() + static_cast<ptrdiff_t>(from), names.end(), name);
    return static_cast<size_t>(found - names.begin());
  };
  // The second starts before the product that reads the first, the third before the one that reads the
  // second.
  const size_t first = after("linear", 0), second = after("linear", first + 1);
  CHECK(std::count(names.begin(), names.begin() + static_cast<ptrdiff_t>(first), "all_gather_start") == 2);
  CHECK(std::count(names.begin(), names.begin() + static_cast<ptrdiff_t>(first), "collective_done") == 1);
  CHECK(std::count(names.begin(), names.begin() + static_cast<ptrdiff_t>(second), "all_gather_start") == 3);
  CHECK(std::count(names.begin(), names.begin() + static_cast<ptrdiff_t>(second), "collective_done") == 2);
  CHECK(std::count(names.begin(), names.end(), "reduce_scatter_start") == 2);
  CHECK(std::count(names.begin(), names.end(), "collective_done") == 5);
  CHECK(std::count(names.begin(), names.end(), "cast") >= 2);
  // The phases stay in their order, and each gather comes after the cast that it reads.
  const std::vector<Node>& nodes = draft.program.entries[0].nodes;
  CHECK(std::ranges::is_sorted(nodes, {}, &Node::phase));
}

TEST_CASE("overlap_collectives: what fits travels in one bucket") {
  Draft draft = two_products();
  draft.run({shard_parameters({.shards = 2}), autodiff(), overlap_collectives(int64_t{1} << 20)});
  CHECK(draft.calls("all_gather_start") == Calls{"all_gather_start(a, b) {number=1 axis=shards}"});
  CHECK(draft.calls("reduce_scatter_start").size() == 1);
}

TEST_CASE("overlap_collectives: no gradient is on its way when the update begins") {
  const int64_t bucket = GENERATE(1, int64_t{1} << 20);
  Draft draft = two_products();
  draft.run({shard_parameters({.shards = 2}), autodiff()});
  draft.build.set_phase(Phase::update);
  draft.output("later", draft.relu(draft.program.find("x")));
  draft.output("part", draft.program.entries[0].gradients[0].gradient);
  draft.run({overlap_collectives(bucket)});
  int64_t started = 0, done = 0;
  for (const Node& node : draft.program.entries[0].nodes) {
    if (node.phase == Phase::update) CHECK(started == done);
    if (dynamic_cast<const CollectiveStart*>(node.op.get()) != nullptr) ++started;
    if (dynamic_cast<const CollectiveDone*>(node.op.get()) != nullptr) ++done;
  }
  CHECK(done >= 2);
}

TEST_CASE("overlap_collectives: what reads a part early finds it complete") {
  Draft draft;
  const TensorId x = draft.input("x", {2, 4}), w = draft.parameter("w", {4, 4});
  const Along alone{Axis::shards, 1};
  const TensorId y = draft.build.emit<AllGather>({draft.build.emit<ReduceScatter>({x}, alone, Shape{16})},
                                                 alone, Shape{2, 4});
  draft.loss(draft.build.emit<Linear>({y, w, kNone}));
  draft.run({overlap_collectives(int64_t{1} << 20)});
  CHECK(draft.calls().front() == "reduce_scatter_start(x) {number=0 axis=shards}");
}

}  // namespace trainer
