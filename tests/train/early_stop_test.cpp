// SPDX-License-Identifier: Apache-2.0
#include "core/train/early_stop.h"

#include <cmath>
#include <vector>

#include "tests/catch.h"

namespace trainer {
namespace {

/// The evaluation, from 1, after which the run ends; 0: none.
int64_t stop_of(const EarlyStopSettings& settings, Direction direction, const std::vector<double>& values) {
  EarlyStopState state;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto number = static_cast<int64_t>(i) + 1;
    state = after_evaluation(settings, direction, state, 10 * number, values[i]);
    if (state.stops(settings)) return number;
  }
  return 0;
}

}  // namespace

TEST_CASE("early stop: after as many evaluations in a row without improvement as patience says") {
  const EarlyStopSettings two{.metric = "loss", .patience = 2};
  CHECK(stop_of(two, Direction::smaller, {3, 2, 2, 1, 1, 1}) == 6);
  CHECK(stop_of(two, Direction::smaller, {3, 2, 1, 0}) == 0);
  CHECK(stop_of(two, Direction::larger, {3, 2, 2}) == 3);
  CHECK(stop_of(two, Direction::larger, {1, 1, 2, 1, 3, 4}) == 0);
  CHECK(stop_of({.metric = "loss", .patience = 1}, Direction::smaller, {1, 1}) == 2);
}

TEST_CASE("early stop: an improvement is larger than min_delta, from the last one on") {
  const EarlyStopSettings settings{.metric = "top1", .patience = 3, .min_delta = 0.25};
  CHECK(stop_of(settings, Direction::larger, {0, 0.25, 0.25, 0.25}) == 4);
  CHECK(stop_of(settings, Direction::larger, {0, 0.125, 0.25, 0.375, 0.5}) == 0);
  CHECK(stop_of(settings, Direction::smaller, {0, -0.125, -0.25, -0.25}) == 4);
}

TEST_CASE("early stop: values that are not finite are no improvement, and the text says what there was") {
  const EarlyStopSettings settings{.metric = "loss", .patience = 2, .min_delta = 0.5};
  CHECK(stop_of(settings, Direction::smaller, {1, std::nan(""), -HUGE_VAL}) == 3);
  EarlyStopState state = after_evaluation(settings, Direction::smaller, {}, 5, std::nan(""));
  CHECK(early_stop_text(settings, state) ==
        "validation loss has not improved by more than 0.5 in 1 evaluation; it was never finite");
  state = after_evaluation(settings, Direction::smaller, state, 6, 2);
  CHECK(state == EarlyStopState{.metric = "loss", .best = 2, .best_step = 6});
  for (const int64_t step : {7, 8}) state = after_evaluation(settings, Direction::smaller, state, step, 1.75);
  CHECK(early_stop_text({.metric = "loss", .patience = 2}, state) ==
        "validation loss has not improved in 2 evaluations; its best was 2.0000 at step 6");
}

TEST_CASE("early stop: another metric begins anew") {
  const EarlyStopState state{.metric = "top1", .best = 0.9, .best_step = 30, .bad = 5};
  CHECK(after_evaluation({.metric = "loss"}, Direction::smaller, state, 40, 7) ==
        EarlyStopState{.metric = "loss", .best = 7, .best_step = 40});
}

}  // namespace trainer
