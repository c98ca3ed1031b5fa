// SPDX-License-Identifier: Apache-2.0
#include "core/sweep/sweep_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include "tests/catch.h"

#include "core/sweep/trial_process.h"
#include "tests/sweep/plans.h"

namespace trainer {
namespace {

using What = TrialState::What;
using test::plan_of;
using test::trained;

std::vector<What> whats(const std::vector<TrialState>& states) {
  std::vector<What> all;
  for (const TrialState& state : states) all.push_back(state.what);
  return all;
}

const char* const kRandomHalving =
    "method: random, halving: {first: 1ba, factor: 3}, metric: loss, trials: 6, "
    "parameters: [{log_uniform: {key: optimizer.lr, from: 0.001, to: 1}}]";

}  // namespace

TEST_CASE("a setting goes on if it is among the best third of those up to it") {
  const SweepPlan plan = plan_of(kRandomHalving, "9ba");
  REQUIRE(plan.rungs().size() == 2);
  TrialRecords records;
  CHECK(whats(sweep_state(plan, records)) == std::vector<What>(6, What::ready));
  // Alone it is the best.
  records[0] = trained(0, {5});
  CHECK(sweep_state(plan, records)[0].what == What::ready);
  CHECK(sweep_state(plan, records)[0].next == 1);
  records[1] = trained(1, {6});
  records[2] = trained(2, {4});
  CHECK(sweep_state(plan, records)[1].what == What::dropped);
  CHECK(sweep_state(plan, records)[2].next == 1);
  // Whatever comes later changes nothing.
  records[3] = trained(3, {1});
  records[4] = trained(4, {4.5});
  const std::vector<TrialState> states = sweep_state(plan, records);
  CHECK(states[0].next == 1);
  CHECK(states[1].what == What::dropped);
  CHECK(states[2].next == 1);
  CHECK(states[3].next == 1);
  CHECK(states[4].what == What::dropped);
}

TEST_CASE("a setting waits at a rung for those before it, and for nobody else") {
  const SweepPlan plan = plan_of(kRandomHalving, "9ba");
  TrialRecords records;
  records[2] = trained(2, {4});
  CHECK(sweep_state(plan, records)[2].what == What::waiting);
  records[0] = trained(0, {5});
  CHECK(sweep_state(plan, records)[2].what == What::waiting);
  records[1] = trained(1, {3});
  CHECK(sweep_state(plan, records)[2].what == What::dropped);
  // A failed one does not come, so nobody waits for it.
  records.erase(1);
  records[1] = {.number = 1, .failure = TrialFailure{.reason = "memory", .code = 71}};
  CHECK(sweep_state(plan, records)[1].what == What::failed);
  CHECK(sweep_state(plan, records)[2].next == 1);
  // One that fails later was there.
  records[1] = trained(1, {3});
  records[1].failure = TrialFailure{.reason = "numeric", .code = 70};
  CHECK(sweep_state(plan, records)[2].what == What::dropped);
  // At the next rung it waits for those that may still come there: 0 has not been there.
  records[1] = {.number = 1, .failure = TrialFailure{.reason = "memory", .code = 71}};
  records[2] = trained(2, {4, 2});
  CHECK(sweep_state(plan, records)[2].what == What::waiting);
  records[0] = trained(0, {5, 1});
  CHECK(sweep_state(plan, records)[2].what == What::dropped);
  CHECK(sweep_state(plan, records)[2].next == 1);
}

TEST_CASE("dropped trials and finished ones beyond the best need no checkpoints; waiting and open ones do") {
  const std::vector<std::pair<int64_t, std::vector<int64_t>>> expected = {
      {0, {0, 1, 2}}, {1, {0, 1}}, {2, {1}}, {9, {1}}};
  for (const auto& [keep, without] : expected) {
    const SweepPlan plan = plan_of("keep: " + std::to_string(keep) + ", " + kRandomHalving, "9ba");
    TrialRecords records;
    records[0] = trained(0, {5, 4}, 3);
    records[1] = trained(1, {6});
    records[2] = trained(2, {4, 3}, 2);
    records[3] = trained(3, {1});
    records[5] = trained(5, {0.5});
    const std::vector<TrialState> states = sweep_state(plan, records);
    REQUIRE(states[1].what == What::dropped);
    REQUIRE(states[5].what == What::waiting);
    std::vector<int64_t> found = trials_without_checkpoints(plan, states);
    std::ranges::sort(found);
    CHECK(found == without);
  }
}

TEST_CASE("a training that stopped early counts at no rung, and is not waited for") {
  const SweepPlan plan = plan_of(kRandomHalving, "9ba");
  TrialRecords records;
  records[0] = trained(0, {}, 0.5);
  records[1] = trained(1, {7});
  const std::vector<TrialState> states = sweep_state(plan, records);
  CHECK(states[0].what == What::finished);
  CHECK(states[0].value == 0.5);
  CHECK(states[1].next == 1);
  CHECK(best_trial(plan, states) == 0);
}

TEST_CASE("a rung compares means once all repeats are there") {
  const SweepPlan plan =
      plan_of(std::string(kRandomHalving) + ", repeat: {key: run.seed, values: [1, 2]}", "9ba");
  TrialRecords records;
  records[0] = trained(0, {5});
  records[0].repeats.push_back({.rungs = {{1, 7}}});
  records[1] = trained(1, {1});
  CHECK(sweep_state(plan, records)[0].rungs == std::vector<double>{6});
  CHECK(sweep_state(plan, records)[0].spreads[0] == Approx(std::sqrt(2)));
  records[1].repeats.emplace_back();
  CHECK(sweep_state(plan, records)[1].what == What::ready);
  CHECK(sweep_state(plan, records)[1].next == 0);
  CHECK(next_part(plan, records[1], 0).repeat == 1);
  records[1].repeats[1].rungs.push_back({1, 13});
  CHECK(sweep_state(plan, records)[1].what == What::dropped);
  // One of them may have stopped early; the other goes on.
  records[0].repeats[0].end = TrialValue{1, 5};
  records[0].repeats[1].rungs.push_back({3, 6});
  CHECK(sweep_state(plan, records)[0].rungs == std::vector<double>{6, 5.5});
  CHECK(next_part(plan, records[0], 2).repeat == 1);
  CHECK(next_part(plan, records[0], 2).rung == 2);
}

TEST_CASE("a learned setting follows from the results that it waits for, whatever else is known") {
  const SweepPlan plan = plan_of(
      "method: {name: tpe, lag: 2}, metric: loss, trials: 6, "
      "parameters: [{log_uniform: {key: optimizer.lr, from: 0.001, to: 1}}]",
      "9ba");
  TrialRecords records;
  CHECK(whats(sweep_state(plan, records)) ==
        std::vector<What>{What::ready, What::later, What::later, What::later, What::later, What::later});
  records[0] = trained(0, {});
  CHECK(sweep_state(plan, records)[1].what == What::ready);
  CHECK(sweep_state(plan, records)[2].what == What::later);
  records[1] = trained(1, {});
  CHECK(sweep_state(plan, records)[2].what == What::later);
  records[0] = trained(0, {}, 2.0);
  CHECK(sweep_state(plan, records)[2].what == What::ready);
  const auto setting = [&] {
    return plan.setting(2, observations_before(plan, records, sweep_state(plan, records), 2), {}).overrides;
  };
  const std::vector<std::string> before = setting();
  records[1] = trained(1, {}, 1.0);
  CHECK(setting() == before);
}

TEST_CASE(
    "a learned setting knows the results up to the one `lag` before it, and of later ones the settings "
    "alone") {
  const SweepPlan plan = plan_of(
      "method: {name: tpe, lag: 2}, metric: loss, trials: 20, "
      "parameters: [{log_uniform: {key: optimizer.lr, from: 0.001, to: 1}}]",
      "9ba");
  TrialRecords records;
  for (int64_t number = 0; number < 15; ++number) {
    records[number] = trained(number, {}, 1 + 0.1 * static_cast<double>(number % 7));
    records[number].texts = {fmt::format("{:.6g}", 0.002 * std::pow(1.5, static_cast<double>(number)))};
  }
  const auto next = [&] {
    return plan.setting(15, observations_before(plan, records, sweep_state(plan, records), 15), {}).overrides;
  };
  const auto ends_with = [&](int64_t number, double value) {
    records[number].repeats[0].end = TrialValue{9, value};
  };
  const std::vector<std::string> before = next();
  ends_with(14, -9);  // one before it: not seen
  CHECK(next() == before);
  records[14].repeats[0].end.reset();
  CHECK(next() == before);
  ends_with(13, -9);  // two before it: the best by far
  CHECK(next() != before);
}

TEST_CASE("the order in which trials are trained changes no decision") {
  const SweepPlan plan = plan_of(kRandomHalving, "9ba");
  std::mt19937 random(7);
  const std::vector<std::vector<double>> values = {{5, 4, 3}, {6, 2, 2}, {4, 5, 1},
                                                   {3, 3, 4}, {7, 1, 1}, {2, 6, 5}};
  std::vector<What> expected;
  for (int order = 0; order < 200; ++order) {
    TrialRecords records;
    while (true) {
      const std::vector<TrialState> states = sweep_state(plan, records);
      std::vector<int64_t> ready;
      for (int64_t number = 0; number < plan.trials(); ++number) {
        if (states[static_cast<size_t>(number)].what == What::ready) ready.push_back(number);
      }
      if (ready.empty()) break;
      const int64_t number = ready[random() % ready.size()];
      TrialRecord& record = records[number];
      record.number = number;
      record.repeats.resize(1);
      const auto rung = static_cast<int64_t>(record.repeats[0].rungs.size());
      const TrialValue value{rung + 1, values[static_cast<size_t>(number)][static_cast<size_t>(rung)]};
      if (rung == 2) {
        record.repeats[0].end = value;
      } else {
        record.repeats[0].rungs.push_back(value);
      }
    }
    const std::vector<What> found = whats(sweep_state(plan, records));
    CHECK(std::ranges::all_of(sweep_state(plan, records), &TrialState::is_decided));
    if (expected.empty()) expected = found;
    CHECK(found == expected);
  }
}

}  // namespace trainer
