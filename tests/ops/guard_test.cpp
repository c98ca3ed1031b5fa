// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <set>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/graph/ops/keep.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/loss_scale.h"
#include "core/passes/pass.h"
#include "core/step/guard.h"
#include "cpu/backend.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr const char* kStep = entry_name::kTrainStep;
const TensorSpec kScalar{{1}, DType::f32}, kCounter{{1}, DType::i32};

Entry empty_entry() {
  return Entry(kStep);
}

/// A guard alone, of a loss, a norm and a finding that are inputs; it counts the steps too.
Program guard_program(const SpikeLimit& limit, const std::vector<int32_t>& told, bool scaled) {
  Program program;
  program.entries.push_back(empty_entry());
  Builder build(program, program.entries[0]);
  const StepGuards guards{.loss = true, .counts = true, .spike = limit, .skip_steps = told};
  const TensorId steps = program.input("steps", kCounter);
  const std::vector<TensorId> in = {program.input("loss", kScalar),
                                    program.input("found", kScalar),
                                    program.input("norm", kScalar),
                                    steps,
                                    guard_skip_steps(program, guards),
                                    guard_window(program, limit),
                                    guard_accepted(program),
                                    guard_skipped(program),
                                    guard_in_a_row(program)};
  const auto out =
      build.emit_all(std::make_shared<StepGuard>(limit.loss_sigmas, limit.norm_sigmas, scaled), in);
  for (size_t s = 0; s < StepGuard::kStates; ++s)
    build.assign(in[StepGuard::kWindow + s], out[StepGuard::kFirstState + s]);
  for (size_t o = 0; o < StepGuard::kFirstState; ++o)
    program.entries[0].outputs.push_back({fmt::format("{}", o), out[o]});
  return program;
}

struct Step {
  float loss = 0, norm = 1;
  bool found = false;
};

/// The expected guard, implemented again with a queue of losses and one of norms.
class Expected {
 public:
  Expected(const SpikeLimit& limit, std::vector<int64_t> told, bool scaled)
      : limit_(limit), told_(std::move(told)), scaled_(scaled) {}

  SkipReason next(const Step& step) {
    const bool told = std::find(told_.begin(), told_.end(), ++number_) != told_.end();
    SkipReason reason = SkipReason::none;
    if (told) {
      reason = SkipReason::listed;
    } else if (!std::isfinite(step.loss)) {
      reason = SkipReason::loss;
    } else if (step.found && !scaled_) {
      reason = SkipReason::gradients;
    } else if (is_spike(limit_.loss_sigmas, losses, step.loss)) {
      reason = SkipReason::spike;
    } else if (!step.found && limit_.norm_sigmas > 0 &&
               (!std::isfinite(step.norm) || is_spike(limit_.norm_sigmas, norms, step.norm))) {
      reason = SkipReason::gradient_spike;
    }
    skip = reason != SkipReason::none || step.found;
    if (reason != SkipReason::none) ++skipped;
    if (reason != SkipReason::none && !told) ++in_a_row;
    if (skip) return reason;
    in_a_row = 0;
    losses.push_back(step.loss);
    norms.push_back(step.norm);
    for (auto* queue : {&losses, &norms}) {
      if (queue->size() > static_cast<size_t>(limit_.window)) queue->pop_front();
    }
    return reason;
  }

  bool skip = false;
  int64_t skipped = 0, in_a_row = 0;
  std::deque<double> losses, norms;

 private:
  bool is_spike(double sigmas, const std::deque<double>& before, double value) const {
    if (sigmas == 0) return false;
    if (before.size() < static_cast<size_t>(std::max<int64_t>(2, limit_.window / 2))) return false;
    double mean = 0, squares = 0;
    for (double each : before) mean += each / static_cast<double>(before.size());
    for (double each : before) squares += std::pow(each - mean, 2);
    return value > mean + sigmas * std::sqrt(squares / static_cast<double>(before.size() - 1));
  }

  SpikeLimit limit_;
  std::vector<int64_t> told_;
  bool scaled_;
  int64_t number_ = 0;
};

/// Losses around a falling mean, norms around a rising one; a few in a hundred are infinite, NaN, high, or
/// have bad gradients.
std::vector<Step> made_up(uint64_t seed, size_t count) {
  RandomStream random(random_key(seed, "losses"));
  std::vector<Step> steps(count);
  for (size_t i = 0; i < count; ++i) {
    const float mean = 2 + 3 / (1 + 0.01f * static_cast<float>(i));
    steps[i].loss = mean + 0.1f * (random.next_uniform() + random.next_uniform() - 1);
    steps[i].norm = (1 + 0.001f * static_cast<float>(i)) * (1 + 0.1f * random.next_uniform());
    switch (random.next_below(33)) {
      case 0:
        steps[i].loss = random.next_below(2) == 0 ? kNan : kInfinity;
        break;
      case 1:
        steps[i].loss = 40 * mean;
        break;
      case 2:
        steps[i].found = true;
        steps[i].norm = random.next_below(2) == 0 ? kNan : kInfinity;
        break;
      case 3:
        steps[i].norm = random.next_below(4) == 0 ? kInfinity : 30;
        break;
      default:
        break;
    }
  }
  return steps;
}

void follow(const Backend& backend, const SpikeLimit& limit, bool scaled, uint64_t seed) {
  INFO(backend.planner->name() << ", window " << limit.window << ", scaled " << scaled << ", seed " << seed);
  const std::vector<int64_t> told = {7, 8, 9, 90};
  Session session(guard_program(limit, {7, 9, 90, 90, 0, 0}, scaled), backend);
  Expected expected(limit, told, scaled);
  std::map<SkipReason, int> seen;
  const std::vector<Step> steps = made_up(seed, 400);
  for (size_t i = 0; i < steps.size(); ++i) {
    INFO("step " << i + 1);
    const SkipReason reason = expected.next(steps[i]);
    ++seen[reason];
    session.set(
        {{"loss", {steps[i].loss}}, {"norm", {steps[i].norm}}, {"found", {steps[i].found ? 1.0f : 0.0f}}});
    session.set("steps", {static_cast<float>(i)});
    session.run(kStep);
    REQUIRE(session.output(kStep, "0")[0] == (expected.skip ? 1 : 0));
    REQUIRE(session.output(kStep, "1")[0] == (reason == SkipReason::none ? 0 : 1));
    REQUIRE(session.output(kStep, "2")[0] == static_cast<double>(reason));
    REQUIRE(session.persistent("guard.skipped")[0] == static_cast<double>(expected.skipped));
    REQUIRE(session.persistent("guard.in_a_row")[0] == static_cast<double>(expected.in_a_row));
  }
  const size_t unwatched = (limit.loss_sigmas == 0 ? 1 : 0) + (limit.norm_sigmas == 0 ? 1 : 0);
  CHECK(seen.size() == (scaled ? 5 : 6) - unwatched);
  const std::vector<double> window = session.persistent("guard.window");
  const auto half = window.begin() + limit.window;
  CHECK(std::multiset<double>(window.begin(), half) ==
        std::multiset<double>(expected.losses.begin(), expected.losses.end()));
  CHECK(std::multiset<double>(half, window.end()) ==
        std::multiset<double>(expected.norms.begin(), expected.norms.end()));
}

void with_backends(const std::function<void(const Backend&)>& check) {
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  for (const Backend* backend : {&cpu, &reference}) check(*backend);
}

}  // namespace

TEST_CASE("a guard follows made-up losses as a queue of them does, and no bad loss enters its window") {
  with_backends([](const Backend& backend) {
    for (const int64_t window : {4, 31, 33, 128}) {
      for (const bool scaled : {false, true}) {
        for (const uint64_t seed : {1, 2, 3}) {
          follow(backend, {.window = window}, scaled, seed);
          follow(backend, {.norm_sigmas = 0, .window = window}, scaled, seed);
          follow(backend, {.loss_sigmas = 0, .norm_sigmas = 5, .window = window}, scaled, seed);
        }
      }
    }
  });
}

TEST_CASE("equal losses have room for rounding, and nothing is a spike before half of the window is there") {
  with_backends([](const Backend& backend) {
    INFO(backend.planner->name());
    Session session(guard_program({.window = 8}, {0, 0}, false), backend);
    auto reason = [&](float loss) {
      session.set({{"loss", {loss}}, {"norm", {1}}, {"found", {0}}, {"steps", {0}}});
      session.run(kStep);
      return static_cast<SkipReason>(session.output(kStep, "2")[0]);
    };
    for (int i = 0; i < 3; ++i) CHECK(reason(2) == SkipReason::none);
    CHECK(reason(1e6f) == SkipReason::none);
    Session equal(guard_program({.window = 8}, {0, 0}, false), backend);
    for (int i = 0; i < 8; ++i) {
      equal.set({{"loss", {2}}, {"norm", {1}}, {"found", {0}}, {"steps", {0}}});
      equal.run(kStep);
    }
    auto of_equal = [&](float loss) {
      equal.set("loss", {loss});
      equal.run(kStep);
      return static_cast<SkipReason>(equal.output(kStep, "2")[0]);
    };
    CHECK(of_equal(std::nextafter(2.0f, 3.0f)) == SkipReason::none);
    CHECK(of_equal(0) == SkipReason::none);  // a fall is not a spike
    CHECK(of_equal(1e9f) == SkipReason::spike);
  });
}

TEST_CASE("a guard that does not count looks at the loss alone") {
  with_backends([](const Backend& backend) {
    Program program;
    program.entries.push_back(empty_entry());
    Builder build(program, program.entries[0]);
    std::vector<TensorId> in(StepGuard::kInputs, kNone);
    in[StepGuard::kLoss] = program.input("loss", kScalar);
    program.entries[0].outputs.push_back({"skip", build.emit<StepGuard>(in, 0.0, 0.0, false)});
    run_passes(program, {dead_code()});
    Session session(program, backend);
    for (const auto& [loss, skip] : std::vector<std::pair<float, double>>{
             {1, 0}, {kNan, 1}, {-1e38f, 0}, {kInfinity, 1}, {-kInfinity, 1}}) {
      session.set("loss", {loss});
      session.run(kStep);
      CHECK(session.output(kStep, "skip")[0] == skip);
    }
  });
}

TEST_CASE(
    "what is kept and what is averaged stays bit for bit where a step is skipped, whatever was to come") {
  with_backends([](const Backend& backend) {
    for (const int64_t size : {1, 31, 33, 70001}) {
      INFO(backend.planner->name() << ", " << size);
      Program program;
      program.entries.push_back(empty_entry());
      Builder build(program, program.entries[0]);
      const TensorSpec spec{{size}, DType::f32};
      const TensorId a = program.persistent("a", spec, Role::state, {}),
                     b = program.persistent("b", spec, Role::state, {});
      const TensorId fresh = program.input("fresh", spec), skip = program.input("skip", kScalar);
      build.assign(a, build.emit<Keep>({a, fresh, skip}));
      program.entries[0].outputs.push_back({"copied", build.emit<Keep>({b, fresh, skip})});
      build.assign(b, build.emit<Lerp>({b, fresh, skip}, 0.25));
      Session session(program, backend);
      RandomStream random(random_key(static_cast<uint64_t>(size), "values"));
      std::vector<float> old, bad(static_cast<size_t>(size), kNan), good;
      for (int64_t i = 0; i < size; ++i)
        old.push_back(random.next_uniform()), good.push_back(random.next_uniform());
      bad[0] = kInfinity;
      session.set({{"a", old}, {"b", old}, {"fresh", bad}, {"skip", {1}}});
      session.run(kStep);
      const std::vector<double> expected(old.begin(), old.end()), taken(good.begin(), good.end());
      CHECK(session.persistent("a") == expected);
      CHECK(session.persistent("b") == expected);
      CHECK(session.output(kStep, "copied") == expected);
      session.set({{"fresh", good}, {"skip", {0}}});
      session.run(kStep);
      CHECK(session.persistent("a") == taken);
      CHECK(session.output(kStep, "copied") == taken);
      const std::vector<double> averaged = session.persistent("b");
      for (size_t i = 0; i < old.size(); ++i)
        REQUIRE(averaged[i] == Approx(0.75 * old[i] + 0.25 * good[i]).epsilon(1e-6));
    }
  });
}

TEST_CASE("a scale that is held stays with its counters, and none falls below its smallest") {
  with_backends([](const Backend& backend) {
    INFO(backend.planner->name());
    Program program;
    program.entries.push_back(empty_entry());
    Builder build(program, program.entries[0]);
    const std::vector<TensorId> states = {loss_scale(program, {.initial = 4}), good_step_counter(program),
                                          skipped_step_counter(program)};
    const auto next = build.emit_all(
        std::make_shared<UpdateLossScale>(LossScaling{.interval = 2}),
        {states[0], states[1], states[2], program.input("found", kScalar), program.input("held", kScalar)});
    for (size_t i = 0; i < 3; ++i) build.assign(states[i], next[i]);
    Session session(program, backend);
    auto run = [&](float found, float held) {
      session.set({{"found", {found}}, {"held", {held}}});
      session.run(kStep);
      return std::vector<double>{session.persistent("loss_scale")[0],
                                 session.persistent("loss_scale.good_steps")[0],
                                 session.persistent("loss_scale.skipped")[0]};
    };
    using Values = std::vector<double>;
    CHECK(run(0, 0) == Values{4, 1, 0});
    CHECK(run(1, 1) == Values{4, 1, 0});
    CHECK(run(0, 1) == Values{4, 1, 0});
    CHECK(run(0, 0) == Values{8, 0, 0});
    for (const double scale : {4, 2, 1, 1, 1}) CHECK(run(1, 0)[0] == scale);
    CHECK(run(1, 0) == Values{1, 0, 6});
  });
}
