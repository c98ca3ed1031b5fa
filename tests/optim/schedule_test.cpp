// SPDX-License-Identifier: Apache-2.0
#include "core/optim/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "tests/catch.h"

#include "core/config/value.h"
#include "core/storage/safetensors.h"

namespace trainer {
namespace {

/// A schedule as a recipe would give it; its errors go to `diagnostics`.
std::unique_ptr<Schedule> make(const std::string& name, const std::string& yaml, Diagnostics& diagnostics) {
  const auto row = std::ranges::find(schedules(), name, &Registered<Schedule>::name);
  REQUIRE(row != schedules().end());
  std::unique_ptr<Schedule> schedule = row->make();
  schedule->origin.path = "lr_scheduler";
  Fields fields;
  schedule->declare(fields);
  const Value value = parse_yaml(yaml, "r.yaml", diagnostics);
  fields.read(value, "lr_scheduler", diagnostics, &schedule->written);
  if (diagnostics.ok()) schedule->check(diagnostics);
  return schedule;
}

std::unique_ptr<Schedule> make(const std::string& name, const std::string& yaml) {
  Diagnostics diagnostics;
  std::unique_ptr<Schedule> schedule = make(name, yaml, diagnostics);
  INFO((diagnostics.ok() ? "" : diagnostics.problems()[0]));
  REQUIRE(diagnostics.ok());
  return schedule;
}

constexpr double kTiny = 1e-15;

TEST_CASE("schedules: constant") {
  const auto schedule = make("constant", "{}");
  for (const int64_t update : {0, 1, 99}) CHECK(schedule->factor(update, 100, {.per_epoch = 10}) == 1);
}

TEST_CASE("schedules: warm-up rises to 1 in as many updates as it says") {
  for (const std::string name : {"constant", "cosine"}) {
    for (const std::string warmup : {"20ba", "2ep"}) {
      const auto schedule = make(name, "{warmup: " + warmup + "}");
      CHECK(schedule->factor(0, 100, {.per_epoch = 10}) == 1.0 / 20);
      CHECK(schedule->factor(9, 100, {.per_epoch = 10}) == 0.5);
      CHECK(schedule->factor(19, 100, {.per_epoch = 10}) == 1);
      CHECK(schedule->factor(20, 100, {.per_epoch = 10}) == 1);
    }
  }
  CHECK(make("constant", "{warmup: 1ba}")->factor(0, 100, {.per_epoch = 10}) == 1);
  CHECK(make("constant", "{warmup: 0ep}")->factor(0, 100, {.per_epoch = 10}) == 1);
}

TEST_CASE("schedules: multi_step drops at its milestones") {
  const auto schedule = make("multi_step", "{milestones: [3ep, 50ba], gamma: 0.5, warmup: 5ba}");
  CHECK(schedule->factor(0, 100, {.per_epoch = 10}) == 0.2);
  CHECK(schedule->factor(5, 100, {.per_epoch = 10}) == 1);
  CHECK(schedule->factor(29, 100, {.per_epoch = 10}) == 1);
  CHECK(schedule->factor(30, 100, {.per_epoch = 10}) == 0.5);
  CHECK(schedule->factor(49, 100, {.per_epoch = 10}) == 0.5);
  CHECK(schedule->factor(50, 100, {.per_epoch = 10}) == 0.25);
  CHECK(schedule->factor(99, 100, {.per_epoch = 10}) == 0.25);
  CHECK(make("multi_step", "{milestones: [1ba]}")->factor(1, 2, {}) == 0.1);
}

TEST_CASE("schedules: cosine falls from 1 towards its least factor") {
  const auto schedule = make("cosine", "{warmup: 20ba, min_factor: 0.2}");
  CHECK(schedule->factor(20, 100, {.per_epoch = 10}) == 1);
  CHECK(schedule->factor(60, 100, {.per_epoch = 10}) == Approx(0.6).epsilon(kTiny));
  CHECK(schedule->factor(40, 100, {.per_epoch = 10}) ==
        Approx(0.2 + 0.8 * (0.5 + std::sqrt(0.125))).epsilon(kTiny));
  CHECK(schedule->factor(99, 100, {.per_epoch = 10}) > 0.2);
  CHECK(schedule->factor(99, 100, {.per_epoch = 10}) < 0.2004);
  CHECK(schedule->factor(100, 100, {.per_epoch = 10}) == 0.2);
  CHECK(schedule->factor(100'000, 100, {.per_epoch = 10}) == 0.2);
  for (int64_t update = 21; update < 100; ++update) {
    CHECK(schedule->factor(update, 100, {.per_epoch = 10}) <
          schedule->factor(update - 1, 100, {.per_epoch = 10}));
  }
  CHECK(make("cosine", "{}")->factor(50, 100, {.per_epoch = 10}) == Approx(0.5).epsilon(kTiny));
}

TEST_CASE("schedules: linear and polynomial fall to their least factor, after the warm-up") {
  const auto linear = make("linear", "{warmup: 20ba, min_factor: 0.2}");
  CHECK(linear->factor(19, 100, {.per_epoch = 10}) == 1);
  CHECK(linear->factor(40, 100, {.per_epoch = 10}) == Approx(0.8).epsilon(kTiny));
  CHECK(linear->factor(100, 100, {.per_epoch = 10}) == 0.2);
  const auto cubic = make("polynomial", "{power: 3, min_factor: 0.1}");
  CHECK(cubic->factor(50, 100, {.per_epoch = 10}) == Approx(0.1 + 0.9 * 0.125).epsilon(kTiny));
  CHECK(cubic->factor(1000, 100, {.per_epoch = 10}) == 0.1);
}

TEST_CASE("schedules: trapezoid stays at the base rate until its last part") {
  const auto schedule = make("trapezoid", "{warmup: 20ba, decay: 0.25, min_factor: 0.1}");
  CHECK(schedule->factor(9, 100, {.per_epoch = 10}) == 0.5);
  CHECK(schedule->factor(20, 100, {.per_epoch = 10}) == 1);
  CHECK(schedule->factor(80, 100, {.per_epoch = 10}) == 1);  // 3/4 of the updates after the warm-up
  CHECK(schedule->factor(90, 100, {.per_epoch = 10}) == Approx(0.1 + 0.9 / 2).epsilon(kTiny));
  CHECK(schedule->factor(100, 100, {.per_epoch = 10}) == 0.1);
}

TEST_CASE("schedules: inverse_sqrt goes on where the warm-up ends") {
  const auto schedule = make("inverse_sqrt", "{warmup: 16ba}");
  CHECK(schedule->factor(15, 100, {.per_epoch = 10}) == 1);
  CHECK(schedule->factor(63, 100, {.per_epoch = 10}) == 0.5);
  CHECK(make("inverse_sqrt", "{}")->factor(99, 1000, {.per_epoch = 10}) == Approx(0.1).epsilon(kTiny));
}

TEST_CASE("schedules: exponential and cosine_restarts count their periods from the end of the warm-up") {
  const auto steps = make("exponential", "{warmup: 5ba, gamma: 0.5, period: 2ep}");
  CHECK(steps->factor(24, 100, {.per_epoch = 10}) == 1);
  CHECK(steps->factor(25, 100, {.per_epoch = 10}) == 0.5);
  CHECK(steps->factor(45, 100, {.per_epoch = 10}) == 0.25);
  const auto waves = make("cosine_restarts", "{warmup: 5ba, period: 1ep, growth: 3, min_factor: 0.2}");
  CHECK(waves->factor(5, 100, {.per_epoch = 10}) == 1);
  CHECK(waves->factor(10, 100, {.per_epoch = 10}) == Approx(0.6).epsilon(kTiny));
  CHECK(waves->factor(15, 100, {.per_epoch = 10}) == 1);
  CHECK(waves->factor(30, 100, {.per_epoch = 10}) == Approx(0.6).epsilon(kTiny));
  CHECK(waves->factor(45, 100, {.per_epoch = 10}) == 1);
}

TEST_CASE("schedules: one_cycle takes no warm-up and lasts as long as training, however short") {
  Diagnostics diagnostics;
  make("one_cycle", "{warmup: 1ep}", diagnostics);
  CHECK_FALSE(diagnostics.ok());
  for (int64_t total : {1, 2, 3, 7}) {
    const auto schedule = make("one_cycle", "{rise: 0.3}");
    for (int64_t update = 0; update <= total; ++update) {
      const double factor = schedule->factor(update, total, {});
      CHECK(factor > 0);
      CHECK(factor <= 1);
    }
  }
}

TEST_CASE("schedules: the rates are PyTorch's") {
  const SafetensorsFile fixture(std::string(TRAINER_SOURCE_DIR) + "/tests/fixtures/schedules.safetensors");
  const std::vector<std::array<std::string, 3>> cases = {
      {"linear", "linear", "{min_factor: 0.1}"},
      {"polynomial", "polynomial", "{power: 1.5}"},
      {"cosine", "cosine", "{min_factor: 0.05}"},
      {"exponential", "exponential", "{gamma: 0.9, period: 1ba}"},
      {"cosine_restarts", "cosine_restarts", "{period: 5ba, growth: 2, min_factor: 0.05}"},
      {"one_cycle.0", "one_cycle", "{}"},
      {"one_cycle.1", "one_cycle", "{rise: 0.45, div_factor: 10, final_div_factor: 100}"}};
  for (const auto& [name, kind, keys] : cases) {
    const std::vector<float> expected = fixture.read_floats(*fixture.find(name));
    const std::vector<float> rates =
        learning_rates(*make(kind, keys), 0.5, static_cast<int64_t>(expected.size()), {.per_epoch = 10});
    for (size_t i = 0; i < expected.size(); ++i) {
      INFO(name << ", update " << i);
      CHECK(rates[i] == Approx(expected[i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("schedules: training may end within the warm-up") {
  const auto schedule = make("cosine", "{warmup: 10ep}");
  const std::vector<float> rates = learning_rates(*schedule, 1, 5, {});
  CHECK(rates == std::vector<float>{0.1f, 0.2f, 0.3f, 0.4f, 0.5f});
  CHECK(schedule->factor(10, 5, {}) == 0);
}

TEST_CASE("schedules: the table holds one rate for each update") {
  const auto schedule = make("multi_step", "{milestones: [1ep], gamma: 0.1}");
  CHECK(learning_rates(*schedule, 0.5, 4, {.per_epoch = 2}) == std::vector<float>{0.5f, 0.5f, 0.05f, 0.05f});
  CHECK(learning_rates(*schedule, 0.5, 0, {.per_epoch = 2}).empty());
}

TEST_CASE("schedules: bad milestones are reported, each at its own path") {
  const auto problems = [](const std::string& yaml) {
    Diagnostics diagnostics;
    make("multi_step", yaml, diagnostics);
    return diagnostics.problems();
  };
  const std::string place = "r.yaml:1:2: error: lr_scheduler.milestones";
  const std::string expected = "expected a duration such as 3ep or 500ba, at least 1, got ";
  CHECK(problems("{milestones: [1ep, 3, 2 epochs, 0ba, 5ep]}") ==
        std::vector<std::string>{place + "[1]: " + expected + "\"3\"",
                                 place + "[2]: " + expected + "\"2 epochs\"",
                                 place + "[3]: " + expected + "\"0ba\""});
  CHECK(problems("{milestones: [3ep, 3ep]}") ==
        std::vector<std::string>{place + "[1]: expected a milestone after 3ep, got 3ep"});
  CHECK(problems("{milestones: []}") ==
        std::vector<std::string>{place + ": expected at least one milestone, as in [3ep, 5ep]"});
  CHECK(problems("{milestones: [5ep, 10ba]}").empty());
  CHECK(problems("{}").size() == 1);
  CHECK(problems("{milestones: [1ep], gamma: 0}").size() == 1);
  CHECK(problems("{milestones: [1ep], gamma: 1.5}").size() == 1);
}

TEST_CASE("schedules: every one has a name, a line of help and can be made") {
  std::vector<std::string> names;
  for (const auto& row : schedules()) {
    names.push_back(row.name);
    CHECK_FALSE(row.help.empty());
    CHECK(row.make() != nullptr);
  }
  CHECK(names == std::vector<std::string>{"constant", "multi_step", "cosine", "linear", "polynomial",
                                          "trapezoid", "inverse_sqrt", "exponential", "cosine_restarts",
                                          "one_cycle", "plateau"});
}

}  // namespace
}  // namespace trainer
