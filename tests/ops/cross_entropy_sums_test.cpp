// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/cross_entropy_sums.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/graph/ops/cross_entropy.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/ops/fixture.h"
#include "tests/ops/harness.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr const char* kLossEntry = "train_step";

Shape labels_of(const Shape& logits) {
  if (logits.size() == 4) return {logits[0], logits[2], logits[3]};
  return {logits.begin(), logits.end() - 1};
}

/// Sums of logits against labels, the first of which is -100; every output exists.
void draft_sums(Sketch& sketch, const Shape& shape, const CrossEntropySettings& settings, bool weighs) {
  const int64_t classes = LogitSizes(shape).classes;
  const TensorId logits = sketch.parameter("logits", shape);
  const TensorId labels = sketch.integers("labels", labels_of(shape), classes);
  if (settings.ignore_index == -100) sketch.values["labels"][0] = -100;
  const TensorId weights = sketch.input("weights", {shape[0]}, Values::positive);
  const TensorId of_classes = weighs ? sketch.input("class_weights", {classes}, Values::positive) : kNone;
  const auto sums = sketch.build().emit_all(std::make_shared<CrossEntropySums>(settings),
                                            {logits, labels, weights, of_classes});
  sketch.output("loss", sums[0]);
  sketch.output("weight", sums[1]);
  sketch.output("valid_targets", sums[2]);
  const int32_t ignored = settings.ignored();
  sketch.output("top1", sketch.build().emit<TopK>({logits, labels, weights}, 1, ignored));
}

/// One loss and its gradient of the logits, as the update's mean.
struct Measured {
  double loss;
  std::vector<double> gradient;
};

Measured measure(const Fixture& fixture, const std::string& name, const Backend& backend) {
  const auto option = [&](const char* what) { return fixture.values(name + "/" + what)[0]; };
  CrossEntropySettings settings;
  if (fixture.has(name + "/smoothing")) settings.label_smoothing = static_cast<double>(option("smoothing"));
  if (fixture.has(name + "/gamma")) settings.gamma = static_cast<double>(option("gamma"));
  if (fixture.has(name + "/ignore_index"))
    settings.ignore_index = static_cast<int64_t>(option("ignore_index"));
  Program program;
  program.entries.emplace_back(kLossEntry);
  Builder build(program, program.entries[0]);
  const auto input = [&](const char* what, DType type = DType::f32) {
    return program.input(what, {fixture.shape(name + "/" + what), type});
  };
  const TensorId logits = input("logits"), labels = input("labels", DType::i32);
  const TensorId weights = program.input("weights", {{build.shape(logits)[0]}, DType::f32});
  const TensorId one = program.input("one", {{1}, DType::f32});
  const bool weighs = fixture.has(name + "/class_weights");
  const TensorId of_classes = weighs ? input("class_weights") : kNone;
  const auto sums =
      build.emit_all(std::make_shared<CrossEntropySums>(settings), {logits, labels, weights, of_classes});
  const auto mean = build.emit_all(std::make_shared<MeanOverTargets>(), {sums[0], sums[1], one});
  const TensorId gradient = build.emit<CrossEntropySumsBackward>(
      {mean[MeanOverTargets::kFactor], logits, labels, weights, of_classes, sums[CrossEntropySums::kLargest],
       sums[CrossEntropySums::kExpSum]},
      settings);
  program.entries[0].outputs = {{"loss", mean[MeanOverTargets::kMean]}, {"gradient", gradient}};
  Session session(program, backend);
  const auto samples = static_cast<size_t>(build.shape(logits)[0]);
  session.set({{"logits", fixture.values(name + "/logits")},
               {"labels", fixture.values(name + "/labels")},
               {"weights", std::vector<float>(samples, 1.0f / static_cast<float>(samples))},
               {"one", {1}}});
  if (weighs) session.set("class_weights", fixture.values(name + "/class_weights"));
  session.run(kLossEntry);
  return {session.output(kLossEntry, "loss")[0], session.output(kLossEntry, "gradient")};
}

/// Compares every loss of a fixture with PyTorch's; returns how many it has.
int check_fixture(const Fixture& fixture) {
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  int found = 0;
  for (int i = 0; fixture.has(fmt::format("counted.{}/logits", i)); ++i, ++found) {
    const std::string name = fmt::format("counted.{}", i);
    for (const Backend* backend : {&reference, &cpu}) {
      INFO(name << " on " << backend->planner->name());
      const Measured own = measure(fixture, name, *backend);
      CHECK(own.loss == Approx(fixture.values(name + "/loss")[0]).epsilon(1e-6));
      CHECK(relative_error(own.gradient, fixture.doubles(name + "/dlogits")) < 1e-6);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("the sums of cross entropy have the right sums and gradient, for samples, positions and pixels") {
  for (const Shape& shape : {Shape{1, 2}, Shape{33, 10}, Shape{3, 7, 31}, Shape{5, 3, 300}, Shape{1, 2, 1, 1},
                             Shape{3, 5, 3, 7}, Shape{2, 3, 31, 33}}) {
    for (const double smoothing : {0.0, 0.2}) {
      for (const bool weighs : {false, true}) {
        for (const auto ignored :
             {std::optional<int64_t>(), std::optional<int64_t>(1), std::optional<int64_t>(-100)}) {
          const std::string name =
              fmt::format("sums {} s={} w={} i={}", to_string(shape), smoothing, weighs, ignored.value_or(0));
          check_program(name, [&](Sketch& sketch) {
            draft_sums(sketch, shape, {smoothing, ignored}, weighs);
          });
        }
      }
    }
  }
}

TEST_CASE("focal loss has the right sum and gradient, for samples, positions and pixels") {
  for (const Shape& shape :
       {Shape{1, 2}, Shape{33, 10}, Shape{3, 7, 31}, Shape{3, 5, 3, 7}, Shape{2, 3, 31, 33}}) {
    for (const double gamma : {0.5, 2.0, 5.0}) {
      for (const bool weighs : {false, true}) {
        const auto ignored = weighs ? std::optional<int64_t>(-100) : std::nullopt;
        check_program(fmt::format("focal {} gamma={} w={}", to_string(shape), gamma, weighs),
                      [&](Sketch& sketch) {
                        draft_sums(sketch, shape, {.ignore_index = ignored, .gamma = gamma}, weighs);
                      });
      }
    }
  }
}

TEST_CASE("a mean over valid targets is PyTorch's cross_entropy with ignore_index, weight and smoothing") {
  CHECK(check_fixture(Fixture("counted_losses")) == 24);
}

TEST_CASE("focal loss is what PyTorch makes of its formula, with and without weights of classes") {
  CHECK(check_fixture(Fixture("focal_losses")) == 18);
}

TEST_CASE("focal loss is safe where a label's probability is 1 or 0, and of gamma 0 it is cross entropy") {
  Program program;
  program.entries.emplace_back(kLossEntry);
  Builder build(program, program.entries[0]);
  const TensorId logits = program.input("logits", {{4, 2}, DType::f32});
  const TensorId labels = program.input("labels", {{4}, DType::i32});
  const TensorId weights = program.input("weights", {{4}, DType::f32});
  const TensorId one = program.input("one", {{1}, DType::f32});
  auto& outputs = program.entries[0].outputs;
  for (const double gamma : {0.0, 0.5, 2.0}) {
    const CrossEntropySettings how{.gamma = gamma};
    const auto sums =
        build.emit_all(std::make_shared<CrossEntropySums>(how), {logits, labels, weights, kNone});
    outputs.push_back({fmt::format("loss {}", gamma), sums[0]});
    outputs.push_back({fmt::format("gradient {}", gamma),
                       build.emit<CrossEntropySumsBackward>(
                           {one, logits, labels, weights, kNone, sums[CrossEntropySums::kLargest],
                            sums[CrossEntropySums::kExpSum]},
                           how)});
  }
  outputs.push_back({"cross entropy", build.emit<CrossEntropy>({logits, labels, weights}, 0.0)});
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  for (const Backend* backend : {&reference, &cpu}) {
    INFO(backend->planner->name());
    Session session(program, *backend);
    // Probabilities 1, 0, one half, and 1 - 1e-4.
    session.set({{"logits", {1e4f, 0, 1e4f, 0, 3, 3, 0, 9.21034f}},
                 {"labels", {0, 1, 1, 1}},
                 {"weights", {1, 0.5, 1, 1}},
                 {"one", {1}}});
    session.run(kLossEntry);
    CHECK(session.output(kLossEntry, "loss 0")[0] ==
          Approx(session.output(kLossEntry, "cross entropy")[0]).epsilon(1e-7));
    CHECK(session.output(kLossEntry, "loss 2")[0] == Approx(0.5 * 1e4 + std::log(2.0) / 4).epsilon(1e-7));
    const std::vector<double> steep = session.output(kLossEntry, "gradient 0.5");
    CHECK(steep[0] == 0);
    CHECK(steep[1] == 0);
    CHECK(steep[7] == Approx(-1.5 * std::pow(1e-4, 1.5)).epsilon(2e-3));
    const std::vector<double> found = session.output(kLossEntry, "gradient 2");
    CHECK(found[2] == 0.5);
    CHECK(found[3] == -0.5);
    CHECK(found[5] == Approx(-(0.25 + std::log(2.0) / 2) / 2));
  }
}

TEST_CASE("what is ignored reaches neither loss nor gradient, whatever it holds; a batch of it is 0") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Program program;
  program.entries.emplace_back(kLossEntry);
  Builder build(program, program.entries[0]);
  const TensorId logits = program.input("logits", {{2, 2}, DType::f32});
  const TensorId labels = program.input("labels", {{2}, DType::i32});
  const TensorId weights = program.input("weights", {{2}, DType::f32});
  const TensorId one = program.input("one", {{1}, DType::f32});
  const CrossEntropySettings settings{.ignore_index = 255};
  const auto sums =
      build.emit_all(std::make_shared<CrossEntropySums>(settings), {logits, labels, weights, kNone});
  const auto mean = build.emit_all(std::make_shared<MeanOverTargets>(), {sums[0], sums[1], one});
  const TensorId gradient = build.emit<CrossEntropySumsBackward>(
      {mean[1], logits, labels, weights, kNone, sums[CrossEntropySums::kLargest],
       sums[CrossEntropySums::kExpSum]},
      settings);
  program.entries[0].outputs = {{"loss", mean[0]}, {"factor", mean[1]}, {"gradient", gradient}};
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  for (const Backend* backend : {&reference, &cpu}) {
    Session session(program, *backend);
    session.set({{"logits", {nan, nan, 0, 0}}, {"labels", {255, 1}}, {"weights", {0.5, 0.5}}, {"one", {1}}});
    session.run(kLossEntry);
    CHECK(session.output(kLossEntry, "loss")[0] == Approx(std::log(2.0)));
    CHECK(session.output(kLossEntry, "gradient") == std::vector<double>{0, 0, 0.5, -0.5});
    session.set("labels", {255, 255});
    session.run(kLossEntry);
    CHECK(session.output(kLossEntry, "loss")[0] == 0);
    CHECK(session.output(kLossEntry, "factor")[0] == 1);
    CHECK(session.output(kLossEntry, "gradient") == std::vector<double>(4, 0));
  }
}
