// SPDX-License-Identifier: Apache-2.0
#include "core/search/space.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>

#include "tests/catch.h"
#include "tests/search/functions.h"

#include "core/search/grid.h"

namespace trainer {
namespace {

constexpr int kDraws = 20'000;

/// A choice on which a number depends, on whose branch another choice depends, and so on.
Space nested_space() {
  return {choice("a", 3), only_if(choice("b", 2), 0, {1, 2}), only_if(real("x", 0, 1), 1, {0}),
          only_if(only_if(integer("n", 1, 3), 0, {2}), 1, {1}), real("y", 1, 100, true)};
}

/// How often each value of a space's last dimension was drawn.
std::map<double, int> counts_of_last(const Space& space) {
  std::map<double, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[random_setting(space, 3, i).back().value()];
  return counts;
}

/// The part of draws of a real below a value.
double part_below(const Dimension& dimension, double limit) {
  int below = 0;
  for (int i = 0; i < kDraws; ++i) below += *random_setting({dimension}, 3, i)[0] < limit ? 1 : 0;
  return static_cast<double>(below) / kDraws;
}

TEST_CASE("space: a dimension exists if all its conditions hold, which need dimensions that exist") {
  const Space space = nested_space();
  CHECK(exists(space, {0.0, {}, {}, {}, {}}, 0));
  CHECK_FALSE(exists(space, {0.0, {}, {}, {}, {}}, 1));
  CHECK_FALSE(exists(space, {0.0, {}, {}, {}, {}}, 2));
  CHECK(exists(space, {1.0, 0.0, {}, {}, {}}, 2));
  CHECK_FALSE(exists(space, {1.0, 1.0, {}, {}, {}}, 3));
  CHECK(exists(space, {2.0, 1.0, {}, {}, {}}, 3));
}

TEST_CASE("space: a setting is within bounds and has exactly what exists") {
  const Space space = nested_space();
  CHECK(contains(space, {0.0, {}, {}, {}, 1.0}));
  CHECK(contains(space, {2.0, 1.0, {}, 3.0, 100.0}));
  CHECK_FALSE(contains(space, {0.0, {}, {}, {}}));        // too short
  CHECK_FALSE(contains(space, {0.0, 0.0, {}, {}, 1.0}));  // b does not exist
  CHECK_FALSE(contains(space, {1.0, {}, {}, {}, 1.0}));   // b is missing
  CHECK_FALSE(contains(space, {3.0, {}, {}, {}, 1.0}));   // no such choice
  CHECK_FALSE(contains(space, {0.5, {}, {}, {}, 1.0}));   // not an index
  CHECK_FALSE(contains(space, {-1.0, {}, {}, {}, 1.0}));
  CHECK_FALSE(contains(space, {0.0, {}, {}, {}, 100.5}));
  CHECK_FALSE(contains(space, {0.0, {}, {}, {}, 0.5}));
  CHECK_FALSE(contains(space, {0.0, {}, {}, {}, std::nan("")}));
  CHECK_FALSE(contains(space, {2.0, 1.0, {}, 2.5, 1.0}));  // not whole
  CHECK_FALSE(contains(space, {2.0, 1.0, {}, 4.0, 1.0}));
}

TEST_CASE("random: settings are in the space, and depend on seed and number only") {
  const Space space = nested_space();
  std::set<Setting> distinct;
  for (int64_t number = 999; number >= 0; --number) {
    const Setting setting = random_setting(space, 1, number);
    CHECK(contains(space, setting));
    CHECK(setting == random_setting(space, 1, number));
    distinct.insert(setting);
  }
  CHECK(distinct.size() == 1000);
  CHECK(random_setting(space, 1, 5) != random_setting(space, 2, 5));
  CHECK(random_setting(space, 1, 5) != random_setting(space, 1, 5 + (int64_t{1} << 32)));
}

TEST_CASE("random: a dimension's value does not depend on the others") {
  const Dimension x = real("x", 0, 1), y = integer("y", 1, 1000);
  const Setting alike = random_setting({real("a", 0, 1), real("b", 0, 1)}, 1, 1);
  CHECK(alike[0] != alike[1]);
  for (int64_t number = 0; number < 20; ++number) {
    const Setting both = random_setting({x, y}, 1, number), reversed = random_setting({y, x}, 1, number);
    CHECK(both[0] == reversed[1]);
    CHECK(both[1] == reversed[0]);
    CHECK(random_setting({x}, 1, number)[0] == both[0]);
  }
}

TEST_CASE("random: reals are uniform in the range or its logarithm") {
  for (const double part : {0.1, 0.5, 0.9}) {
    CHECK(std::abs(part_below(real("x", -2, 6), -2 + 8 * part) - part) < 0.02);
    CHECK(std::abs(part_below(real("x", 1e-4, 1, true), std::pow(1e-4, 1 - part)) - part) < 0.02);
  }
}

TEST_CASE("random: integers and choices are equally likely, of logarithmic ones by the interval's ratio") {
  const std::map<double, int> integers = counts_of_last({integer("n", -1, 2)}),
                              choices = counts_of_last({choice("c", 4)});
  CHECK(integers.size() == 4);
  CHECK(choices.size() == 4);
  for (const auto& [value, count] : integers) CHECK(std::abs(count - kDraws / 4) < 400);
  for (const auto& [value, count] : choices) CHECK(std::abs(count - kDraws / 4) < 400);
  const std::map<double, int> ratios = counts_of_last({integer("n", 1, 3, true)});
  CHECK(ratios.size() == 3);
  for (const auto& [value, count] : ratios) {
    const double part = std::log((value + 0.5) / (value - 0.5)) / std::log(7.0);
    CHECK(std::abs(count - kDraws * part) < 400);
  }
}

TEST_CASE("random: a range of one value has it") {
  CHECK(random_setting({real("x", 0.3, 0.3, true), integer("n", 7, 7), choice("c", 1)}, 1, 1) ==
        Setting{0.3, 7, 0});
  CHECK(is_single(integer("n", 7, 7)));
  CHECK(is_single(choice("c", 1)));
  CHECK_FALSE(is_single(real("x", 1, 2)));
}

TEST_CASE("grid: both ends, equal distances or ratios, each integer once, the last dimension fastest") {
  const Space space = {integer("n", 1, 3), real("x", 1, 100, true)};
  CHECK(
      grid_settings(space, {10, 3}) ==
      std::vector<Setting>{{1, 1}, {1, 10}, {1, 100}, {2, 1}, {2, 10}, {2, 100}, {3, 1}, {3, 10}, {3, 100}});
  CHECK(grid_settings({real("x", -1, 2)}, {4}) == std::vector<Setting>{{-1}, {0}, {1}, {2}});
  CHECK(grid_settings({integer("n", 1, 1000, true)}, {4}) == std::vector<Setting>{{1}, {10}, {100}, {1000}});
  CHECK(grid_settings({integer("n", 1, 4, true)}, {50}) == std::vector<Setting>{{1}, {2}, {3}, {4}});
  CHECK(grid_settings({integer("n", 0, 100)}, {2}) == std::vector<Setting>{{0}, {100}});
  CHECK(grid_settings({real("x", 0, 4), choice("c", 2)}, {1, 9}) == std::vector<Setting>{{2, 0}, {2, 1}});
  CHECK(grid_settings({real("x", 5, 5)}, {3}) == std::vector<Setting>{{5}});
  CHECK(grid_settings({}, {}) == std::vector<Setting>{{}});
  CHECK(grid_settings({real("x", -0.6, 0.3)}, {7}).back() == Setting{0.3});  // -0.6 + 0.9 is less
}

TEST_CASE("grid: dimensions are varied only if they exist, and the size is known before") {
  const Space space = nested_space();
  const std::vector<int64_t> points = {1, 1, 2, 3, 2};
  const std::vector<Setting> settings = grid_settings(space, points);
  // a = 0; a = 1: x or nothing; a = 2: x or n. Each with both values of y.
  CHECK(settings.size() == 2 * (1 + (2 + 1) + (2 + 3)));
  CHECK(grid_size(space, points) == 18);
  CHECK(std::set<Setting>(settings.begin(), settings.end()).size() == settings.size());
  CHECK(std::ranges::all_of(settings, [&](const Setting& setting) { return contains(space, setting); }));
  for (const SearchFunction& function : search_functions()) {
    const std::vector<int64_t> three(function.space.size(), 3);
    CHECK(grid_size(function.space, three) ==
          static_cast<int64_t>(grid_settings(function.space, three).size()));
  }
}

TEST_CASE("grid: one that is too large is refused without being made") {
  const Space thousands = {integer("a", 0, 999), integer("b", 0, 999)};
  CHECK(grid_size(thousands, {1000, 1000}) == kMaxGrid);
  const Space larger = {integer("a", 0, 999), integer("b", 0, 1000)};
  CHECK_FALSE(grid_size(larger, {1000, 1001}));
  CHECK_THROWS_AS(grid_settings(larger, {1000, 1001}), std::length_error);
  CHECK_FALSE(grid_size({choice("c", int64_t{1} << 60)}, {1}));
  Space branching;
  for (size_t i = 0; i < 40; ++i) {
    branching.push_back(choice("c", 2));
    branching.push_back(only_if(real("x", 0, 1), 2 * i, {1}));
  }
  CHECK_FALSE(grid_size(branching, std::vector<int64_t>(80, 2)));
  CHECK_FALSE(grid_size(branching, std::vector<int64_t>(80, 1000)));
}

}  // namespace
}  // namespace trainer
