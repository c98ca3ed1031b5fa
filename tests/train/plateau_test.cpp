// SPDX-License-Identifier: Apache-2.0
#include "core/train/plateau.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/ops/fixture.h"

namespace trainer {
namespace {

struct PlateauCase {
  std::string name;
  Direction direction;
  PlateauSettings settings;
};

/// Those of scripts/fixtures/make_metric_fixtures.py.
const std::vector<PlateauCase>& plateau_cases() {
  static const std::vector<PlateauCase> cases = {
      {"min_rel", Direction::smaller, {.factor = 0.5, .patience = 1, .threshold = 0.05}},
      {"max_rel", Direction::larger, {.factor = 0.1, .patience = 2, .threshold = 0.02}},
      {"min_abs",
       Direction::smaller,
       {.factor = 0.3, .patience = 0, .threshold = 0.1, .absolute = true, .cooldown = 2}},
      {"max_abs",
       Direction::larger,
       {.factor = 0.7, .patience = 1, .threshold = 0.05, .absolute = true, .cooldown = 1, .min_factor = 0.2}},
  };
  return cases;
}

}  // namespace

TEST_CASE("plateau: the rates of 20 evaluations are those of PyTorch's ReduceLROnPlateau") {
  const Fixture fixture("plateau");
  for (const PlateauCase& one : plateau_cases()) {
    INFO(one.name);
    const std::vector<double> values = fixture.doubles(one.name + "/values"),
                              rates = fixture.doubles(one.name + "/rates");
    REQUIRE(values.size() == 20);
    PlateauState state;
    for (size_t i = 0; i < values.size(); ++i) {
      INFO("evaluation " << i);
      state = after_evaluation(one.settings, one.direction, state, values[i]);
      CHECK(0.1 * state.factor == Approx(rates[i]).epsilon(1e-6));
    }
    CHECK(state.factor < 0.5);
  }
}

TEST_CASE("plateau: values that are not finite are no improvement, also where they come first") {
  const PlateauSettings settings{.factor = 0.5, .patience = 1};
  PlateauState state;
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()})
    state = after_evaluation(settings, Direction::smaller, state, value);
  CHECK(state.factor == 0.5);
  CHECK(!state.best.has_value());
  state = after_evaluation(settings, Direction::smaller, state, 7);
  CHECK(state.best == 7);
  CHECK(state.factor == 0.5);
}

TEST_CASE("plateau: another metric begins anew and keeps the factor, which no smallest one raises") {
  PlateauState state{.metric = "top1", .best = 0.9, .bad = 3, .cooldown = 2, .factor = 0.25};
  state = after_evaluation({.metric = "loss", .patience = 0}, Direction::smaller, state, 5);
  CHECK(state == PlateauState{.metric = "loss", .best = 5, .factor = 0.25});
  state =
      after_evaluation({.metric = "loss", .patience = 0, .min_factor = 0.5}, Direction::smaller, state, 5);
  CHECK(state.factor == 0.25);
}

}  // namespace trainer
