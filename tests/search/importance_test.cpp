// SPDX-License-Identifier: Apache-2.0
#include "core/search/importance.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/search/fixture.h"
#include "tests/search/functions.h"

namespace trainer {
namespace {

using State = Observation::State;

std::vector<Observation> fixture_observations(const Json& one) {
  std::vector<Observation> seen;
  for (size_t i = 0; i < one["values"].size(); ++i) {
    Setting setting;
    for (const Json& value : one["settings"][i].items()) {
      setting.push_back(value.is_null() ? std::nullopt : std::optional(value.number()));
    }
    seen.push_back({.setting = setting, .state = State::finished, .value = one["values"][i].number()});
  }
  return seen;
}

TEST_CASE("importance: Optuna's") {
  for (const Json& one : search_fixture("importances")) {
    INFO(one["name"].text());
    const std::vector<double> expected = fixture_numbers(one["importances"]);
    const std::vector<double> found =
        importances(fixture_space(one["space"]), fixture_observations(one), one["maximize"].boolean());
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - expected[i]) < 1e-6);
  }
}

TEST_CASE("importance: only finite results of finished settings count") {
  const Space space = {real("x", 0, 1), real("y", 0, 1)};
  std::vector<Observation> seen;
  for (int i = 0; i < 40; ++i) {
    const double x = i / 40.0, y = i % 7 / 7.0;
    seen.push_back({.setting = {x, y}, .state = State::finished, .value = x});
  }
  const std::vector<double> clean = importances(space, seen, false);
  CHECK(clean[0] > 0.8);
  CHECK(clean[0] + clean[1] == Approx(1));
  const double infinity = std::numeric_limits<double>::infinity();
  seen.push_back({.setting = {0.9, 0.9}, .state = State::finished, .value = -infinity});
  seen.push_back({.setting = {0.9, 0.9}, .state = State::finished, .value = std::nan("")});
  for (const State state : {State::dropped, State::open, State::failed}) {
    seen.push_back({.setting = {0.9, 0.9}, .state = state, .value = -1});
  }
  CHECK(importances(space, seen, false) == clean);
}

TEST_CASE("importance: none from fewer than two results, and 0 for what never occurred") {
  const Space space = {choice("c", 2), only_if(real("x", 0, 1), 0, {1}), real("y", 0, 1)};
  std::vector<Observation> seen;
  CHECK(importances(space, seen, false).empty());
  seen.push_back({.setting = {0, {}, 0.5}, .state = State::finished, .value = 1});
  CHECK(importances(space, seen, false).empty());
  seen.push_back(seen.front());
  CHECK(importances(space, seen, false) == std::vector<double>{0.5, 0, 0.5});
}

}  // namespace
}  // namespace trainer
