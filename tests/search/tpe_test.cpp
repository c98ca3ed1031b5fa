// SPDX-License-Identifier: Apache-2.0
#include "core/search/tpe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/search/fixture.h"
#include "tests/search/functions.h"

namespace trainer {
namespace {

using State = Observation::State;

// The logarithm of a regret deviates by about 0.7 between seeds. From 50 of them, medians differ by 20 % by
// chance.
constexpr uint64_t kSeeds = 400;
constexpr int64_t kTrials = 60;

Observation finished(const Setting& setting, double value) {
  return {.setting = setting, .state = State::finished, .value = value};
}

std::vector<Observation> random_observations(const SearchFunction& function, int64_t count) {
  std::vector<Observation> seen;
  for (int64_t number = 0; number < count; ++number) {
    const Setting setting = random_setting(function.space, 1, number);
    seen.push_back(finished(setting, function.value(setting)));
  }
  return seen;
}

double median_regret(const SearchFunction& function, bool random) {
  std::vector<double> regrets;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<Observation> seen;
    double best = std::numeric_limits<double>::infinity();
    for (int64_t number = 0; number < kTrials; ++number) {
      const Setting setting = random ? random_setting(function.space, seed, number)
                                     : tpe_setting(function.space, seen, false, seed, number);
      seen.push_back(finished(setting, function.value(setting)));
      best = std::min(best, seen.back().value);
    }
    regrets.push_back(best);
  }
  std::ranges::sort(regrets);
  return (regrets[kSeeds / 2 - 1] + regrets[kSeeds / 2]) / 2;
}

TEST_CASE("tpe: median regrets are those of Optuna's TPESampler") {
  const std::vector<Json> expected = search_fixture("regrets");
  REQUIRE(expected.size() == 6);
  if (kIsSanitized) return;
  int better_than_random = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const SearchFunction function = search_functions()[i];
    REQUIRE(function.name == expected[i]["name"].text());
    const double regret = median_regret(function, false);
    INFO(function.name << ": " << regret << ", Optuna: " << expected[i]["median"].number());
    CHECK(regret <= 1.1 * expected[i]["median"].number());
    better_than_random += regret < median_regret(function, true) ? 1 : 0;
  }
  CHECK(better_than_random >= 5);
}

/// Those of a case of the fixture, whose dimensions may have another order.
std::vector<Observation> fixture_observations_of(const Json& one, const Space& space) {
  std::vector<Observation> seen;
  for (size_t i = 0; i < one["values"].size(); ++i) {
    seen.push_back({.setting = Setting(space.size()),
                    .state = fixture_state(one["states"].items()[i].text()),
                    .value = fixture_number(one["values"].items()[i]),
                    .rung = one["rungs"].items()[i].integer().value()});
    for (size_t k = 0; k < space.size(); ++k) {
      const auto dimension = std::ranges::find(space, one["names"].items()[k].text(), &Dimension::name);
      const Json& value = one["settings"].items()[i].items()[k];
      if (!value.is_null())
        seen.back().setting[static_cast<size_t>(dimension - space.begin())] = value.number();
    }
  }
  return seen;
}

/// The part of settings that have a dimension; the mean and deviation of its values or their logarithms.
std::vector<double> moments(const std::vector<Setting>& settings, size_t place, const Dimension& dimension) {
  double count = 0, sum = 0, squares = 0;
  for (const Setting& setting : settings) {
    if (!setting[place]) continue;
    const double value = dimension.logarithmic ? std::log(*setting[place]) : *setting[place];
    ++count;
    sum += value;
    squares += value * value;
  }
  if (count == 0) return {0, 0, 0};
  const double mean = sum / count;
  return {count / static_cast<double>(settings.size()), mean,
          std::sqrt(std::max(0.0, squares / count - mean * mean))};
}

TEST_CASE("tpe: the next settings are distributed as Optuna's") {
  constexpr double kOwnDraws = few_or_all(200, 2000), kOptunaDraws = 4000;
  const std::vector<Json> cases = search_fixture("next_settings");
  REQUIRE(cases.size() == 6);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Space space = search_functions()[i].space;
    const std::vector<Observation> seen = fixture_observations_of(cases[i], space);
    std::vector<Setting> settings;
    for (int number = 0; number < kOwnDraws; ++number) {
      settings.push_back(tpe_setting(space, seen, cases[i]["maximize"].boolean(), 1, number));
    }
    for (size_t k = 0; k < space.size(); ++k) {
      const std::string name = cases[i]["names"].items()[k].text();
      const auto dimension = std::ranges::find(space, name, &Dimension::name);
      const std::vector<double> expected = fixture_numbers(cases[i]["moments"].items()[k]);
      const std::vector<double> found =
          moments(settings, static_cast<size_t>(dimension - space.begin()), *dimension);
      INFO(cases[i]["name"].text() << ", " << name);
      // Four standard errors of the difference, and a part of the deviation.
      const double errors = 4 * std::sqrt(1 / kOwnDraws + 1 / kOptunaDraws);
      const double part = expected[0], deviation = std::max(expected[2], found[2]);
      CHECK(std::abs(found[0] - part) <= errors * std::sqrt(part * (1 - part)));
      CHECK(std::abs(found[1] - expected[1]) * std::sqrt(part) <= errors * deviation);
      CHECK(std::abs(found[2] - expected[2]) <= few_or_all(0.5, 0.1) * deviation);
    }
  }
}

TEST_CASE("tpe: random until ten have a result") {
  const SearchFunction function = search_functions()[3];
  std::vector<Observation> seen = random_observations(function, 10);
  seen[4].state = State::dropped;
  CHECK(tpe_setting(function.space, seen, false, 9, 10) != random_setting(function.space, 9, 10));
  seen[7].state = State::open;
  CHECK(tpe_setting(function.space, seen, false, 9, 10) == random_setting(function.space, 9, 10));
}

TEST_CASE("tpe: settings are in the space, and a pure function of the arguments") {
  for (const SearchFunction& function : search_functions()) {
    const std::vector<Observation> seen = random_observations(function, 30);
    for (int64_t number = 30; number < 60; ++number) {
      const Setting setting = tpe_setting(function.space, seen, false, 1, number);
      CHECK(contains(function.space, setting));
      CHECK(setting == tpe_setting(function.space, seen, false, 1, number));
    }
    CHECK(tpe_setting(function.space, seen, false, 1, 30) != tpe_setting(function.space, seen, false, 1, 31));
    CHECK(tpe_setting(function.space, seen, false, 1, 30) != tpe_setting(function.space, seen, false, 2, 30));
  }
}

/// The mean of the next settings' first dimension.
double mean_next(const Space& space, const std::vector<Observation>& seen, bool maximize) {
  double sum = 0;
  for (int64_t number = 0; number < 40; ++number)
    sum += *tpe_setting(space, seen, maximize, 1, number)[0] / 40;
  return sum;
}

TEST_CASE("tpe: the next settings are near good ones, and not near open ones") {
  const Space space = {real("x", 0, 1)};
  std::vector<Observation> seen;
  for (int i = 0; i < 40; ++i) seen.push_back(finished({i / 39.0}, i));
  CHECK(mean_next(space, seen, false) < 0.2);
  CHECK(mean_next(space, seen, true) > 0.8);
  // A dimension of one value beside it changes nothing.
  std::vector<Observation> wider = seen;
  for (Observation& one : wider) one.setting.push_back(4);
  CHECK(mean_next({real("x", 0, 1), integer("one", 4, 4)}, wider, false) == mean_next(space, seen, false));
  const double before = mean_next(space, seen, false);
  for (int i = 0; i < 20; ++i) seen.push_back({.setting = {0.01 * i / 20}, .state = State::open});
  CHECK(mean_next(space, seen, false) > before + 0.01);
}

TEST_CASE("tpe: an open setting may have a part of a group") {
  const Space space = {choice("c", 2), only_if(real("x", 0, 1), 0, {0})};
  std::vector<Observation> seen;
  for (int i = 0; i < 20; ++i) seen.push_back(finished({0, i / 20.0}, i));
  seen.push_back({.setting = {1, {}}, .state = State::open});
  CHECK(contains(space, tpe_setting(space, seen, false, 1, 21)));
}

TEST_CASE("tpe: dimensions that no result has, and those of one value") {
  const Space space = {real("x", 0, 1), integer("one", 4, 4), choice("c", 2),
                       only_if(real("y", 0, 1), 2, {1})};
  std::vector<Observation> seen;
  for (int i = 0; i < 20; ++i) seen.push_back(finished({i / 20.0, 4, 0, {}}, i));
  seen.push_back({.setting = {0.5, 4, 1, 0.1}, .state = State::open});
  int with_y = 0;
  for (int64_t number = 0; number < 40; ++number) {
    const Setting setting = tpe_setting(space, seen, false, 1, number);
    CHECK(contains(space, setting));
    with_y += setting[3].has_value() ? 1 : 0;
  }
  CHECK(with_y > 0);
}

}  // namespace
}  // namespace trainer
