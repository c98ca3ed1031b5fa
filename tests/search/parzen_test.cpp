// SPDX-License-Identifier: Apache-2.0
#include "core/search/parzen.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/catch.h"
#include "tests/search/fixture.h"
#include "tests/search/functions.h"

#include "core/search/normal.h"

namespace trainer {
namespace {

std::vector<size_t> all_dimensions(const Space& space) {
  std::vector<size_t> dimensions(space.size());
  std::iota(dimensions.begin(), dimensions.end(), size_t{0});
  return dimensions;
}

/// From a list for each dimension.
std::vector<Setting> settings_of(const Json& columns) {
  std::vector<Setting> settings(columns.items().front().size(), Setting(columns.size()));
  for (size_t i = 0; i < columns.size(); ++i) {
    for (size_t k = 0; k < settings.size(); ++k) settings[k][i] = columns[i][k].number();
  }
  return settings;
}

Parzen parzen_of(const Space& space, const std::vector<Setting>& settings) {
  std::vector<const Setting*> observed;
  for (const Setting& setting : settings) observed.push_back(&setting);
  return Parzen(space, all_dimensions(space), observed);
}

TEST_CASE("parzen: densities are Optuna's") {
  for (const Json& one : search_fixture("densities")) {
    INFO(one["name"].text());
    const Space space = fixture_space(one["space"]);
    const Parzen parzen = parzen_of(space, settings_of(one["seen"]));
    const std::vector<Setting> probes = settings_of(one["probes"]);
    const std::vector<double> expected = fixture_numbers(one["log_densities"]);
    REQUIRE(probes.size() == 12);
    for (size_t i = 0; i < probes.size(); ++i) {
      CHECK(std::abs(parzen.log_density(probes[i]) - expected[i]) < 1e-9);
    }
  }
}

/// What draws do: how many of `count` have each of the values that `value_of` names by a number.
template <class ValueOf>
std::vector<double> shares_drawn(const Space& space, const Parzen& parzen, size_t values, int count,
                                 const ValueOf& value_of) {
  std::vector<double> shares(values);
  RandomStream stream(7);
  Setting setting(space.size());
  for (int i = 0; i < count; ++i) {
    parzen.draw(stream, setting);
    REQUIRE(contains(space, setting));
    shares[static_cast<size_t>(value_of(setting))] += 1.0 / count;
  }
  return shares;
}

TEST_CASE("parzen: draws of integers and choices have the density") {
  const Space space = {integer("n", 2, 5, true), choice("c", 3)};
  const Parzen parzen = parzen_of(space, {{2, 0}, {5, 1}, {5, 1}});
  const std::vector<double> shares = shares_drawn(
      space, parzen, 12, 40'000, [](const Setting& setting) { return (*setting[0] - 2) * 3 + *setting[1]; });
  double sum = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const double density =
        std::exp(parzen.log_density({static_cast<double>(2 + i / 3), static_cast<double>(i % 3)}));
    sum += density;
    CHECK(std::abs(shares[i] - density) < 5 * std::sqrt(density / 40'000));
  }
  CHECK(sum == Approx(1));
}

TEST_CASE("parzen: draws of reals have the density") {
  const Space space = {real("x", 0.01, 100, true)};
  const Parzen parzen = parzen_of(space, {{0.01}, {0.02}, {50}, {55}});
  // Twenty cells in which the logarithms are alike.
  const double width = std::log(1e4) / 20;
  const std::vector<double> shares = shares_drawn(space, parzen, 20, 40'000, [width](const Setting& setting) {
    return std::min(std::log(*setting[0] / 0.01) / width, 19.0);
  });
  for (size_t i = 0; i < shares.size(); ++i) {
    double share = 0;
    for (int k = 0; k < 100; ++k) {
      const double position = static_cast<double>(i) + (k + 0.5) / 100;
      share += std::exp(parzen.log_density({0.01 * std::exp(position * width)})) * width / 100;
    }
    CHECK(std::abs(shares[i] - share) < 5 * std::sqrt(share / 40'000));
  }
}

TEST_CASE("parzen: the mass of a normal distribution is accurate in the tails and in narrow intervals") {
  CHECK(log_normal_mass(-1, 1) == Approx(std::log(0.6826894921370859)).epsilon(1e-14));
  CHECK(log_normal_mass(1, 2) == Approx(std::log(0.13590512198327787)).epsilon(1e-13));
  CHECK(log_normal_mass(-2, -1) == log_normal_mass(1, 2));
  // log(erfc(-x / sqrt(2)) / 2) in Python for the first two, the continued fraction of Mills' ratio for the
  // third.
  CHECK(log_normal_mass(-200, -29.9) == Approx(-451.32291245852855).epsilon(1e-13));
  CHECK(log_normal_mass(-200, -30.1) == Approx(-457.32956441638225).epsilon(1e-13));
  CHECK(log_normal_mass(100, 200) == Approx(-5005.524208694205).epsilon(1e-14));
  // At the border between both formulas the pieces of an interval sum to it.
  for (const double a : {-90.0, -20.0, -3.0, -0.02, 0.5, 35.0}) {
    double sum = 0;
    const double whole = log_normal_mass(a, a + 0.5);
    for (int i = 0; i < 1000; ++i) sum += std::exp(log_normal_mass(a + i * 5e-4, a + (i + 1) * 5e-4) - whole);
    CHECK(sum == Approx(1).epsilon(1e-9));
  }
}

}  // namespace
}  // namespace trainer
