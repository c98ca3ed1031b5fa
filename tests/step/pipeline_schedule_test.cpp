// SPDX-License-Identifier: Apache-2.0
#include "core/step/pipeline_schedule.h"

#include <algorithm>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace trainer {
namespace {

using Kind = PipelineSchedule::Kind;
using Random = std::mt19937_64;

int64_t number(Random& random, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

/// Each stage's activations go to the next one, and their gradients back.
std::vector<Route> chain(int64_t stages) {
  std::vector<Route> routes;
  for (int64_t stage = 0; stage + 1 < stages; ++stage) routes.push_back({stage, stage + 1, false});
  for (int64_t stage = stages; --stage > 0;) routes.push_back({stage, stage - 1, true});
  return routes;
}

std::vector<std::vector<Unit>> all_units(const PipelineSchedule& schedule) {
  std::vector<std::vector<Unit>> units;
  for (int64_t rank = 0; rank < schedule.ranks; ++rank) units.push_back(units_of(schedule, rank));
  return units;
}

Timeline usual(const PipelineSchedule& schedule) {
  return timeline(schedule, all_units(schedule), chain(schedule.stages()), usual_seconds);
}

}  // namespace

TEST_CASE("stages of equal length wait only while the pipeline fills and drains") {
  const int64_t ranks = GENERATE(2, 3, 4, 8), turns = GENERATE(1, 2, 5);
  const int64_t micro_batches = ranks * turns;
  const auto p = static_cast<double>(ranks), m = static_cast<double>(micro_batches);
  for (const Kind kind : {Kind::one_forward_one_backward, Kind::gpipe}) {
    const Timeline times = usual({.kind = kind, .ranks = ranks, .micro_batches = micro_batches});
    CHECK_THAT(times.idle_share(), Catch::Matchers::WithinAbs((p - 1) / (m + p - 1), 1e-9));
  }
  const int64_t chunks = GENERATE(2, 3);
  const auto v = static_cast<double>(chunks);
  const Timeline times =
      usual({.kind = Kind::interleaved, .ranks = ranks, .chunks = chunks, .micro_batches = micro_batches});
  CHECK_THAT(times.idle_share(), Catch::Matchers::WithinAbs((p - 1) / (v * m + p - 1), 1e-9));
}

TEST_CASE("1F1B holds the activations of as many micro-batches as there are stages from here on") {
  const int64_t ranks = GENERATE(1, 2, 5), micro_batches = GENERATE(5, 11);
  const Timeline one = usual({.ranks = ranks, .micro_batches = micro_batches});
  const Timeline all = usual({.kind = Kind::gpipe, .ranks = ranks, .micro_batches = micro_batches});
  for (int64_t rank = 0; rank < ranks; ++rank) {
    CHECK(one.most_in_flight(rank) == ranks - rank);
    CHECK(all.most_in_flight(rank) == micro_batches);
  }
}

TEST_CASE("each rank computes each of its units once, gradients in the order of the micro-batches") {
  const Kind kind = GENERATE(Kind::one_forward_one_backward, Kind::gpipe, Kind::interleaved);
  const PipelineSchedule schedule{
      .kind = kind, .ranks = 3, .chunks = kind == Kind::interleaved ? 2 : 1, .micro_batches = 6};
  for (int64_t rank = 0; rank < schedule.ranks; ++rank) {
    const std::vector<Unit> units = units_of(schedule, rank);
    const std::set<Unit> different(units.begin(), units.end());
    CHECK(units.size() == static_cast<size_t>(2 * schedule.chunks * schedule.micro_batches));
    CHECK(different.size() == units.size());
    for (int64_t stage = rank; stage < schedule.stages(); stage += schedule.ranks) {
      std::vector<int64_t> order;
      for (const Unit& unit : units) {
        if (unit.stage == stage && unit.is_backward) order.push_back(unit.micro_batch);
      }
      CHECK(order == std::vector<int64_t>{0, 1, 2, 3, 4, 5});
    }
  }
}

namespace {

/// Further tensors that skip stages, from a forward part to a later one, and their gradients.
std::vector<Route> with_skips(Random& random, int64_t stages) {
  std::vector<Route> routes = chain(stages);
  for (int64_t more = number(random, 0, 3); more > 0; --more) {
    const int64_t from = number(random, 0, stages - 1), to = number(random, 0, stages - 1);
    if (from >= to) continue;
    routes.push_back({from, to, false});
    routes.push_back({to, from, true});
  }
  std::ranges::shuffle(routes, random);
  return routes;
}

/// Any order in which all units can be computed, by rank.
std::vector<std::vector<Unit>> any_order(Random& random, const PipelineSchedule& schedule,
                                         const std::vector<Route>& routes) {
  std::vector<Unit> waiting;
  for (int64_t stage = 0; stage < schedule.stages(); ++stage) {
    for (int64_t i = 0; i < schedule.micro_batches; ++i) {
      waiting.push_back({stage, false, i});
      waiting.push_back({stage, true, i});
    }
  }
  std::ranges::shuffle(waiting, random);
  std::set<Unit> done;
  std::vector<std::vector<Unit>> units(static_cast<size_t>(schedule.ranks));
  const auto is_ready = [&](const Unit& unit) {
    if (unit.is_backward && !done.contains({unit.stage, false, unit.micro_batch})) return false;
    return std::ranges::all_of(routes, [&](const Route& route) {
      return route.to != unit.stage || route.is_backward != unit.is_backward ||
             done.contains({route.from, route.is_backward, unit.micro_batch});
    });
  };
  while (!waiting.empty()) {
    const auto next = std::ranges::find_if(waiting, is_ready);
    units[static_cast<size_t>(schedule.rank_of(next->stage))].push_back(*next);
    done.insert(*next);
    waiting.erase(next);
  }
  return units;
}

}  // namespace

TEST_CASE("no rank waits for ever, whatever the schedule, even if a send waits for its receiver") {
  Random random(GENERATE(uint64_t{1}, uint64_t{2}));
  for (int64_t trial = 0; trial < 5000; ++trial) {
    PipelineSchedule schedule{.ranks = number(random, 2, 5), .chunks = number(random, 1, 3)};
    schedule.micro_batches = schedule.ranks * number(random, 1, 2);
    if (schedule.chunks > 1)
      schedule.kind = Kind::interleaved;
    else if (number(random, 0, 1) == 1)
      schedule.kind = Kind::gpipe;
    const std::vector<Route> routes = with_skips(random, schedule.stages());
    const auto units = number(random, 0, 1) == 0 ? all_units(schedule) : any_order(random, schedule, routes);
    const auto seconds = [&](const Unit&) { return static_cast<double>(number(random, 1, 9)); };
    const Timeline times = timeline(schedule, units, routes, seconds);
    REQUIRE_NOTHROW(require_end(schedule, routes, times.actions));
    size_t messages = 0;
    for (const auto& actions : times.actions)
      messages +=
          static_cast<size_t>(std::ranges::count(actions, StageAction::Kind::send, &StageAction::kind));
    const auto between_ranks = [&](const Route& route) {
      return schedule.rank_of(route.from) != schedule.rank_of(route.to);
    };
    REQUIRE(messages ==
            static_cast<size_t>(schedule.micro_batches * std::ranges::count_if(routes, between_ranks)));
  }
}

TEST_CASE("an order in which ranks wait for each other is found") {
  const PipelineSchedule schedule{.ranks = 2, .micro_batches = 3};
  const std::vector<Route> routes = chain(2);
  auto units = all_units(schedule);
  std::vector<std::vector<StageAction>> actions = timeline(schedule, units, routes, usual_seconds).actions;
  const auto first = std::ranges::find(actions[0], StageAction::Kind::send, &StageAction::kind);
  const auto other = std::find_if(first + 1, actions[0].end(), [](const StageAction& each) {
    return each.kind != StageAction::Kind::compute;
  });
  REQUIRE(other != actions[0].end());
  std::swap(*first, *other);
  CHECK_THROWS_WITH(require_end(schedule, routes, actions),
                    Catch::Matchers::ContainsSubstring("waits for ever"));
  std::ranges::reverse(units[0]);  // the last gradient first
  CHECK_THROWS_WITH(timeline(schedule, units, routes, usual_seconds),
                    Catch::Matchers::ContainsSubstring("waits for ever"));
}

}  // namespace trainer
