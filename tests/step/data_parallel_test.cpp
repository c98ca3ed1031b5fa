// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/optimizer_steps.h"
#include "tests/passes/draft.h"
#include "tests/reference/backend.h"

using namespace trainer;

TEST_CASE("sync_batch_norm exchanges moments before a batch normalisation and sums before its gradient") {
  Draft draft;
  const TensorId x = draft.input("x", {2, 3, 2, 1}), skip = draft.parameter("skip", {2, 3, 2, 1});
  const TensorId gamma = draft.parameter("gamma", {3}), beta = draft.parameter("beta", {3});
  const auto norm = draft.build.emit_all(std::make_shared<BatchNorm>(1e-5), {x, gamma, beta, kNone});
  const TensorId running = draft.program.persistent("running_var", {{3}, DType::f32}, Role::state, {});
  draft.build.assign(running, draft.build.emit<Lerp>({running, norm[2]}, 0.1, 4.0 / 3));
  const TensorId sum = draft.build.emit<Binary>({norm[0], skip}, Binary::Kind::add);
  draft.loss(draft.flatten(draft.relu(sum)));
  run_passes(draft.program, {fuse_residual(), fuse_relu(), autodiff()});
  CHECK(draft.run({sync_batch_norm(5)}).calls() ==
        Calls{"batch_norm_moments(x) {ranks=5}", "all_reduce_start(batch_norm_moments) {number=0}",
              "collective_done(all_reduce_start) {number=0}",
              "batch_norm(x, gamma, beta, skip, collective_done, -, -) {eps=1e-05 relu}",
              "lerp(running_var, batch_norm.2, -) {share=0.1 scale=1.05263}", "assign(running_var, lerp)",
              "reshape(batch_norm)", "cross_entropy(reshape, labels, weights, -, -)",
              "cross_entropy_backward(one, reshape, labels, weights, -, -, cross_entropy.1, cross_entropy.2)",
              "reshape(cross_entropy_backward)",
              "batch_norm_sums(reshape, x, batch_norm.1, batch_norm.2, batch_norm.3, -) {eps=1e-05 ranks=5 "
              "residual}",
              "all_reduce_start(batch_norm_sums) {number=1}", "collective_done(all_reduce_start) {number=1}",
              "batch_norm_backward(batch_norm_sums.3, x, gamma, batch_norm.1, batch_norm.2, -, -, "
              "collective_done) "
              "{eps=1e-05}"});
}

TEST_CASE("sync_batch_norm refuses an operation whose statistics it cannot take over all ranks") {
  struct UnheardNorm final : Operation {
    std::string_view name() const override { return "unheard_norm"; }
    std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override { return {inputs[0]}; }
    bool has_batch_statistics() const override { return true; }
  };
  Draft draft;
  draft.loss(draft.build.emit<UnheardNorm>({draft.input("x", {2, 3})}));
  CHECK_THROWS_WITH(run_passes(draft.program, {sync_batch_norm(2)}),
                    Catch::Matchers::ContainsSubstring("unheard_norm cannot take its statistics"));
}

TEST_CASE("running statistics come from all ranks, whoever measured the moments of each") {
  const Backend reference = make_reference_backend();
  for (const auto& [fused, synced] : {std::pair{false, false}, {true, false}, {true, true}}) {
    Draft draft;
    const TensorId w = draft.parameter("w", {3, 2, 1, 1});
    const TensorId y = draft.build.emit<Conv2d>({draft.input("x", {2, 2, 2, 2}), w, kNone}, Conv2dGeometry{});
    const auto norm =
        draft.build.emit_all(std::make_shared<BatchNorm>(1e-5),
                             {y, draft.parameter("gamma", {3}), draft.parameter("beta", {3}), kNone});
    const TensorId running = draft.program.persistent("running_mean", {{3}, DType::f32}, Role::state, {});
    draft.build.assign(running, draft.build.emit<Lerp>({running, norm[1]}, 0.1));
    draft.loss(draft.flatten(norm[0]));
    run_passes(draft.program, {autodiff()});
    if (synced) run_passes(draft.program, {sync_batch_norm(2)});
    if (fused) run_passes(draft.program, {fuse_moments(*reference.planner)});
    const std::string text =
        to_text(draft.run({data_parallel({.replicas = 2}, {1, 1}, int64_t{1} << 20)}).program);
    CHECK((text.find("moments}") != std::string::npos) == (fused && !synced));
    CHECK((text.find("decay_by_rank") != std::string::npos) == !synced);  // they are the same everywhere then
  }
}

TEST_CASE("shard_optimizer: each rank updates some parameters, and sends them before anybody reads them") {
  Draft draft;
  std::vector<TensorId> in = {draft.input("lr", {1}), kNone, kNone, kNone}, states;
  for (const auto& [name, size] : {std::pair{"a", 4}, std::pair{"b", 9}, std::pair{"c", 6}}) {
    const TensorId w = draft.parameter(name, {size}), g = draft.input(std::string("d") + name, {size});
    const TensorId m =
        draft.program.persistent(std::string(name) + ".momentum", {{size}, DType::f32}, Role::optimizer, {});
    in.insert(in.end(), {w, g, m});
    states.insert(states.end(), {w, m});
  }
  const auto rule = update::Sgd{.momentum = 0.9};
  draft.build.set_phase(Phase::update);
  const auto out = draft.build.emit_all(
      std::make_shared<OptimizerStep>(rule, std::vector<ParameterSettings>{{0}, {0.5}, {1}}), in);
  for (size_t i = 0; i < states.size(); ++i) draft.build.assign(states[i], out[i]);
  CHECK(draft.run({shard_optimizer(3)}).calls() ==
        Calls{"sgd(lr, -, -, -, b, db, b.momentum) {momentum=0.9 weight_decay=0.5 parameters=1}",
              "broadcast_start(sgd) {number=0 root=0}",
              "sgd(lr, -, -, -, c, dc, c.momentum) {momentum=0.9 weight_decay=1 parameters=1}",
              "broadcast_start(sgd) {number=1 root=1}",
              "sgd(lr, -, -, -, a, da, a.momentum) {momentum=0.9 weight_decay=0 parameters=1}",
              "broadcast_start(sgd) {number=2 root=2}", "collective_done(broadcast_start) {number=0}",
              "collective_done(broadcast_start) {number=1}", "collective_done(broadcast_start) {number=2}",
              "assign(a, collective_done)", "assign(a.momentum, sgd.1)", "assign(b, collective_done)",
              "assign(b.momentum, sgd.1)", "assign(c, collective_done)", "assign(c.momentum, sgd.1)"});
  for (size_t i = 0; i < 6; ++i)
    CHECK(draft.program.entries[0].nodes[i].origin.path == fmt::format("rank {}", i / 2));
  const auto rank_of = [&](const char* name) {
    return draft.program.tensor(draft.program.find(name)).rank.value_or(-1);
  };
  CHECK(rank_of("b.momentum") == 0);
  CHECK(rank_of("c.momentum") == 1);
  CHECK(rank_of("a.momentum") == 2);
  CHECK(rank_of("a") == -1);
}

TEST_CASE("shares of an optimizer: the largest is the first rank's, and a rank may have none") {
  Draft draft;
  std::vector<TensorId> in = {draft.input("lr", {1}), kNone, kNone, kNone};
  for (const int64_t size : {3, 5, 4, 2, 7}) {
    const std::string name = "w" + std::to_string(size);
    const TensorId m =
        draft.program.persistent(name + ".momentum", {{size}, DType::f32}, Role::optimizer, {});
    in.insert(in.end(), {draft.parameter(name, {size}), draft.input("d" + name, {size}), m});
  }
  draft.build.emit_all(
      std::make_shared<OptimizerStep>(update::Sgd{.momentum = 0.9}, std::vector<ParameterSettings>(5)), in);
  const auto shares = [&](int64_t ranks) {
    Program program = draft.program;
    run_passes(program, {shard_optimizer(ranks)});
    std::vector<int64_t> sizes(static_cast<size_t>(ranks), 0);
    for (const Tensor& tensor : program.tensors) {
      if (tensor.rank) sizes.at(static_cast<size_t>(*tensor.rank)) += numel(tensor.spec.shape);
    }
    return sizes;
  };
  CHECK(shares(1) == std::vector<int64_t>{21});
  CHECK(shares(2) == std::vector<int64_t>{11, 10});
  CHECK(shares(3) == std::vector<int64_t>{7, 7, 7});
  CHECK(shares(7) == std::vector<int64_t>{7, 5, 4, 3, 2, 0, 0});
}
