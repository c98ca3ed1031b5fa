// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/step/step.h"
#include "cpu/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"
#include "tests/reference/thread_group.h"
#include "tests/train/rank_runs.h"

namespace trainer::test {
namespace {

/// Normalisations with a relu, with a residual and a relu, and with neither.
const char* const kResidual =
    "{input: [3, 9, 9], layers: [{conv2d: {out_channels: 8, kernel_size: 3, bias: false}}, batch_norm, "
    "{relu: {name: skip}}, {conv2d: {out_channels: 8, kernel_size: 3, padding: 1, bias: false}}, "
    "{batch_norm: {name: inner}}, {add: {inputs: [inner, skip]}}, relu, "
    "{conv2d: {out_channels: 5, kernel_size: 3, bias: false}}, {batch_norm: {momentum: 0.3}}, "
    "flatten, {linear: 10}]}";

constexpr const char* kClipped = "{name: sgd, momentum: 0.9, clip_norm: 1}";

struct Case {
  int64_t ranks, micro_batches, rows;
};

/// Ranks that synchronise, and the one rank that they must equal.
std::pair<Division, Division> divisions(const Case& c, uint64_t seed = 1) {
  Division shared{.ranks = c.ranks, .micro_batches = c.micro_batches, .rows = c.rows, .seed = seed};
  shared.sync_batch_norm = true;
  return {shared, {.micro_batches = c.micro_batches, .rows = c.ranks * c.rows, .seed = seed}};
}

}  // namespace

TEST_CASE("synchronised batch normalisation is that of one rank with the micro-batches of all") {
  const auto c = GENERATE(Case{2, 1, 3}, Case{3, 1, 5}, Case{2, 2, 4}, Case{3, 2, 1});
  const auto seed = GENERATE(uint64_t{1}, uint64_t{2});
  const bool guards = GENERATE(false, true);
  INFO(c.ranks << " ranks x " << c.micro_batches << " x " << c.rows << " seed " << seed << " guards "
               << guards);
  const auto [shared, alone] = divisions(c, seed);
  const Trained expected = train_all(kResidual, alone, kClipped, guards)[0];
  const std::vector<Trained> found = train_all(kResidual, shared, kClipped, guards);
  for (const Trained& one : found) CHECK(one == found[0]);
  CHECK(distance(expected, found[0]) < 1e-5);
  REQUIRE(found[0].losses.size() == kTrainedSteps);
  for (size_t i = 0; i < kTrainedSteps; ++i) {
    CHECK(found[0].losses[i] == Approx(expected.losses[i]).epsilon(1e-5));
    CHECK(found[0].norms[i] == Approx(expected.norms[i]).epsilon(1e-5));
  }
  CHECK(found[0].evaluation.at("loss") == Approx(expected.evaluation.at("loss")).epsilon(1e-5));
}

TEST_CASE("recompute changes no bit of synchronised batch normalisation, and communicates no more") {
  Division shared = divisions({.ranks = 2, .micro_batches = 2, .rows = 3}).first;
  const Trained expected = train_all(kResidual, shared, kClipped)[0];
  shared.recompute.kind = Recompute::Kind::full;
  CHECK(train_all(kResidual, shared, kClipped)[1] == expected);
}

TEST_CASE("in bf16, synchronised ranks are as near to one rank as two ways of rounding are") {
  if (!can_train_in_bf16()) return;
  auto [shared, alone] = divisions({.ranks = 2, .micro_batches = 1, .rows = 5});
  const Trained exact = train_all(kResidual, alone, kClipped)[0];
  shared.precision = alone.precision = Precision::amp_bf16;
  const Trained rounded = train_all(kResidual, alone, kClipped)[0];
  const std::vector<Trained> found = train_all(kResidual, shared, kClipped);
  CHECK(found[0] == found[1]);
  const double rounding = distance(exact, rounded);
  CAPTURE(rounding);
  CHECK(distance(found[0], rounded) < rounding);
  CHECK(found[0].losses[0] == Approx(rounded.losses[0]).epsilon(1e-5));
}

TEST_CASE("a rank that computes by itself normalises with its own statistics") {
  ThreadGroup table(3);
  ThreadProcessGroup seat(table, 1);
  seat.skip_collectives(true);
  const Backend backend = make_cpu_backend(1, nullptr, false, &seat);
  const Network network = network_from(kResidual);
  const auto rule = optimizer_from("{name: sgd}");
  std::vector<std::vector<double>> losses;
  for (const bool sync : {false, true}) {
    Program program = forward_program(network, 4);
    run_passes(program, rest_of_step({.mesh = {.replicas = 3},
                                      .sync_batch_norm = sync,
                                      .update = {.optimizer = rule.get(), .learning_rates = {0.1f}}}));
    Session session(program, backend);
    RandomStream random(7);
    for (const char* name : {"images", "weights"}) {
      std::vector<float> values(static_cast<size_t>(numel(program.spec(program.find(name)).shape)));
      for (float& value : values) value = 1 + random.next_uniform();
      session.set(name, values);
    }
    session.set("labels", {1, 2, 3, 4});
    session.set("sample_index", {0, 1, 2, 3});
    session.run("train_step");
    losses.push_back(session.output("train_step", "loss"));
  }
  REQUIRE(losses[0].size() == 1);
  CHECK(losses[1][0] == Approx(losses[0][0]).epsilon(1e-6));
}

}  // namespace trainer::test
