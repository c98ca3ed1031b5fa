// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/element_loss.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/cuda/cases.h"
#include "tests/ops/fixture_program.h"
#include "tests/ops/harness.h"

using namespace trainer;

TEST_CASE("losses of elements have the right values and gradients, and sets of labels their cells") {
  std::vector<KernelCase> cases;
  add_element_loss_cases(cases);
  for (const KernelCase& one : cases) check_program(one.name, one.draft, 3);
}

TEST_CASE("losses of elements are PyTorch's") {
  const Fixture fixture("element_losses");
  for_each_case(fixture, "bce", "x", [&](const std::string& name) {
    const std::string weighs = fixture.has(name + "/pos_weight") ? "pos_weight" : "";
    FixtureProgram check(fixture, name);
    check.operation(std::make_shared<ElementLoss>(element_loss::BinaryCrossEntropy{}),
                    {"x", "targets", "weights", weighs});
    check.check();
  });
  for_each_case(fixture, "mse", "x", [&](const std::string& name) {
    FixtureProgram check(fixture, name);
    check.operation(std::make_shared<ElementLoss>(element_loss::SquaredError{}), {"x", "targets", "weights"});
    check.check();
  });
  const Fixture numbers("number_losses");
  for (const auto& [prefix, rule] : {std::pair{"l1", element_loss::Rule(element_loss::AbsoluteError{})},
                                     std::pair{"huber", element_loss::Rule(element_loss::Huber{0.5f})}}) {
    for_each_case(numbers, prefix, "x", [&, how = rule](const std::string& name) {
      FixtureProgram check(numbers, name);
      check.operation(std::make_shared<ElementLoss>(how), {"x", "targets", "weights"});
      check.check();
    });
  }
}

TEST_CASE("losses of numbers: no error has no gradient, and NaN stays NaN") {
  const element_loss::AbsoluteError absolute;
  const element_loss::Huber huber{0.5f};
  CHECK(absolute.gradient(2.0f, 2.0f, 1.0f) == 0);
  CHECK(absolute.gradient(-3.0f, 2.0f, 1.0f) == -1);
  CHECK(huber.gradient(2.0f, 2.0f, 1.0f) == 0);
  CHECK(huber.gradient(9.0f, 2.0f, 1.0f) == 0.5f);
  CHECK(huber.loss(2.5f, 2.0f, 1.0f) == 0.125f);
  for (const float x : {NAN, -NAN}) {
    CHECK(std::isnan(absolute.loss(x, 1.0f, 1.0f)));
    CHECK(std::isnan(absolute.gradient(x, 1.0f, 1.0f)));
    CHECK(std::isnan(huber.loss(x, 1.0f, 1.0f)));
    CHECK(std::isnan(huber.gradient(1.0f, x, 1.0f)));
  }
  CHECK(std::isinf(huber.loss(INFINITY, 1.0f, 1.0f)));
  CHECK(huber.gradient(-INFINITY, 1.0f, 1.0f) == -0.5f);
}

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Against x and t in long double.
long double exact(long double x, long double t, long double positive) {
  const auto softplus = [](long double v) { return (v > 0 ? v : 0) + std::log1p(std::exp(-std::fabs(v))); };
  return positive * t * softplus(-x) + (1 - t) * softplus(x);
}

}  // namespace

TEST_CASE("binary cross entropy keeps its digits wherever the logit lies, and NaN stays NaN") {
  const element_loss::BinaryCrossEntropy rule;
  for (float size = 1e-6f; size < 80; size *= 1.31f) {
    for (const float x : {size, -size}) {
      for (const float t : {0.0f, 0.25f, 1.0f}) {
        INFO("x " << x << ", t " << t);
        const auto expected = static_cast<double>(exact(x, t, 3));
        REQUIRE(rule.loss(x, t, 3.0f) == Approx(expected).epsilon(1e-6));
        const long double s = 1 / (1 + std::exp(-static_cast<long double>(x))),
                          rest = 1 / (1 + std::exp(static_cast<long double>(x)));
        const auto slope = static_cast<double>((1 - t) * s - 3 * t * rest);
        REQUIRE(rule.gradient(x, t, 3.0f) == Approx(slope).epsilon(1e-6).margin(t > 0 && t < 1 ? 1e-6 : 0));
      }
    }
  }
  CHECK(rule.loss(-1000.0f, 1.0f, 1.0f) == 1000);
  CHECK(rule.loss(1000.0f, 1.0f, 1.0f) < 1e-30f);
  CHECK(rule.loss(kInfinity, 0.0f, 1.0f) == kInfinity);
  CHECK(rule.gradient(1000.0f, 0.0f, 1.0f) == 1);
  CHECK(rule.gradient(-kInfinity, 1.0f, 1.0f) == -1);
  for (const float t : {0.0f, 1.0f}) {
    CHECK(std::isnan(rule.loss(NAN, t, 1.0f)));
    CHECK(std::isnan(rule.gradient(NAN, t, 1.0f)));
  }
}

TEST_CASE(
    "losses of elements: samples of weight 0 count for nothing, even with NaN, and NaN reaches the loss") {
  for (const element_loss::Rule& rule :
       {element_loss::Rule(element_loss::BinaryCrossEntropy{}),
        element_loss::Rule(element_loss::SquaredError{}), element_loss::Rule(element_loss::AbsoluteError{}),
        element_loss::Rule(element_loss::Huber{})}) {
    Program program;
    program.entries.emplace_back(kFixtureEntry);
    Builder build(program, program.entries[0]);
    const std::vector<TensorId> inputs{program.input("x", {{2, 2}, DType::f32}),
                                       program.input("targets", {{2, 2}, DType::f32}),
                                       program.input("weights", {{2}, DType::f32})};
    program.entries[0].outputs.push_back({"loss", build.emit<ElementLoss>(inputs, rule)});
    const auto cpu = make_cpu_backend(2);
    Session session(program, cpu);
    const auto loss = [&](const std::vector<float>& x, const std::vector<float>& weights) {
      session.set({{"x", x}, {"targets", {1, 1, 1, 1}}, {"weights", weights}});
      session.run(kFixtureEntry);
      return session.output(kFixtureEntry, "loss")[0];
    };
    const double expected = loss({0.5f, 2, 0, 0}, {1, 0});
    CHECK(expected > 0);
    CHECK(loss({0.5f, 2, NAN, NAN}, {1, 0}) == expected);
    CHECK(std::isnan(loss({0.5f, NAN, 0, 0}, {1, 0})));
  }
}

TEST_CASE("losses of elements refuse targets and weights of other shapes") {
  const auto emits = [](const Shape& x, const Shape& targets, const Shape& weights, const Shape& positive) {
    Program program;
    program.entries.emplace_back(kFixtureEntry);
    Builder build(program, program.entries[0]);
    const auto input = [&](const char* name, const Shape& shape) {
      return shape.empty() ? kNone : program.input(name, {shape, DType::f32});
    };
    build.emit<ElementLoss>({input("x", x), input("t", targets), input("w", weights), input("p", positive)},
                            element_loss::BinaryCrossEntropy{});
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_NOTHROW(emits({2, 3}, {2, 3}, {2}, {3}));
  CHECK_THROWS_WITH(emits({2, 3}, {2, 4}, {2}, {}),
                    ContainsSubstring("needs a target for each output, got 2x4"));
  CHECK_THROWS_WITH(emits({2, 3}, {2, 3}, {3}, {}), ContainsSubstring("needs one weight per sample"));
  CHECK_THROWS_WITH(emits({2, 3}, {2, 3}, {2}, {2}),
                    ContainsSubstring("a weight for each of 3 outputs, got 2"));
  CHECK_THROWS_WITH(emits({2}, {2}, {2}, {}), ContainsSubstring("expected outputs (N, ...), got 2"));
}
