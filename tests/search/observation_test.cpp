// SPDX-License-Identifier: Apache-2.0
#include "core/search/observation.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/search/fixture.h"
#include "tests/search/functions.h"

namespace trainer {
namespace {

using State = Observation::State;
using Groups = std::vector<std::vector<size_t>>;

Observation result(const Setting& setting, double value) {
  return {.setting = setting, .state = State::finished, .value = value};
}

TEST_CASE("observations: the good observations are Optuna's") {
  for (const Json& one : search_fixture("splits")) {
    std::vector<Observation> seen;
    for (const Json& row : one["seen"].items()) {
      seen.push_back({.state = fixture_state(row.items()[0].text()),
                      .value = fixture_number(row.items()[1]),
                      .rung = row.items()[2].integer().value()});
    }
    const ObservationSplit split = split_observations(seen, one["maximize"].boolean());
    const auto as_numbers = [](const std::vector<size_t>& places) {
      return std::vector<double>(places.begin(), places.end());
    };
    CHECK(as_numbers(split.good) == fixture_numbers(one["good"]));
    CHECK(as_numbers(split.bad) == fixture_numbers(one["bad"]));
  }
}

TEST_CASE("observations: NaN at the end is a failure, and at a rung the worst of it") {
  const Observation nan = result({0.5}, std::nan(""));
  CHECK_FALSE(has_result(nan));
  CHECK(split_observations({nan}, false).bad.empty());
  std::vector<Observation> seen(11, {.state = State::dropped, .value = 5, .rung = 1});
  seen[0].value = std::nan("");
  seen[1].rung = 0;
  CHECK(split_observations(seen, true).good == std::vector<size_t>{2, 3});
}

TEST_CASE("observations: dimensions form a group if the same results have them") {
  const Space space = {choice("c", 3), only_if(real("x", 0, 1), 0, {0}), real("y", 0, 1),
                       only_if(real("z", 0, 1), 0, {0, 1})};
  const Observation first = result({0, 0.5, 0.5, 0.5}, 1), second = result({1, {}, 0.5, 0.5}, 1),
                    third = result({2, {}, 0.5, {}}, 1);
  CHECK(dimension_groups(space, {}).empty());
  CHECK(dimension_groups(space, {third}) == Groups{{0, 2}});
  CHECK(dimension_groups(space, {first}) == Groups{{0, 1, 2, 3}});
  CHECK(dimension_groups(space, {first, third}) == Groups{{0, 2}, {1, 3}});
  CHECK(dimension_groups(space, {third, second, first}) == Groups{{0, 2}, {1}, {3}});
  Observation open = second;
  open.state = State::open;
  CHECK(dimension_groups(space, {first, open}) == Groups{{0, 1, 2, 3}});
}

}  // namespace
}  // namespace trainer
