// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/soft_cross_entropy.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "tests/ops/fixture_program.h"
#include "tests/ops/harness.h"

using namespace trainer;

namespace {

const std::vector<std::string> kDistilledShapes = {"3x10", "1x2", "2x5x7", "2x4x3x5"};

struct SoftLoss {
  double loss;
  std::vector<double> gradient;
};

SoftLoss soft_loss(const Backend& backend, const Shape& shape, const std::vector<float>& x,
                   const std::vector<float>& teacher, const std::vector<float>& weights, double temperature) {
  Program program{.tensors = {}, .entries = {Entry(kFixtureEntry)}};
  Builder build(program, program.entries[0]);
  const TensorId logits = program.input("x", {shape, DType::f32}),
                 of_teacher = program.input("teacher", {shape, DType::f32}),
                 of_samples = program.input("weights", {{shape[0]}, DType::f32}),
                 one = program.input("one", {{1}, DType::f32});
  program.entries[0].outputs = {
      {"loss", build.emit<SoftCrossEntropy>({logits, of_teacher, of_samples}, temperature)},
      {"dx", build.emit<SoftCrossEntropyBackward>({one, logits, of_teacher, of_samples}, temperature)}};
  Session session(program, backend);
  session.set({{"x", x}, {"teacher", teacher}, {"weights", weights}, {"one", {1}}});
  session.run(kFixtureEntry);
  return {session.output(kFixtureEntry, "loss")[0], session.output(kFixtureEntry, "dx")};
}

}  // namespace

TEST_CASE("soft_cross_entropy: loss and gradient for samples, positions and pixels") {
  for (const Shape& shape :
       {Shape{1, 1}, Shape{33, 10}, Shape{3, 7, 31}, Shape{5, 3, 67}, Shape{3, 5, 3, 7}}) {
    for (const double temperature : {0.5, 1.0, 4.0}) {
      check_program(fmt::format("soft {} at {}", to_string(shape), temperature), [&](Sketch& sketch) {
        const TensorId x = sketch.parameter("x", shape), teacher = sketch.input("teacher", shape),
                       weights = sketch.input("weights", {shape[0]}, Values::positive);
        if (shape[0] > 1) sketch.values["weights"][0] = 0;
        sketch.output("loss", sketch.build().emit<SoftCrossEntropy>({x, teacher, weights}, temperature));
        sketch.loss(sketch.program.entries[0].outputs.back().tensor);
      });
    }
  }
}

TEST_CASE("soft_cross_entropy: PyTorch's values and gradients") {
  const Fixture fixture("distillation");
  for (const std::string& shape : kDistilledShapes) {
    for (const char* temperature : {"1", "4", "0.5"}) {
      const std::string name = shape + "_" + temperature + "/";
      const Shape sizes = fixture.shape(name + "x");
      for (const Side& side : sides()) {
        INFO(name << " on " << side.backend.planner->name());
        const SoftLoss own =
            soft_loss(side.backend, sizes, fixture.values(name + "x"), fixture.values(name + "teacher"),
                      std::vector<float>(static_cast<size_t>(sizes[0]), 1.0F / static_cast<float>(sizes[0])),
                      std::stod(temperature));
        CHECK(own.loss == Approx(fixture.values(name + "soft")[0]).epsilon(1e-6));
        CHECK(relative_error(own.gradient, fixture.doubles(name + "soft_dx")) < 1e-6);
      }
    }
  }
}

TEST_CASE("soft_cross_entropy: NaN of either network reaches the loss, unless the sample does not count") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Side& side : sides()) {
    INFO(side.backend.planner->name());
    const auto loss = [&](float x, float teacher, float weight) {
      return soft_loss(side.backend, {2, 2}, {x, 1, 2, 3}, {teacher, 0, 1, 0}, {weight, 1}, 2);
    };
    CHECK(std::isnan(loss(nan, 1, 1).loss));
    CHECK(std::isnan(loss(1, nan, 1).loss));
    CHECK(std::isnan(loss(std::numeric_limits<float>::infinity(), 1, 1).loss));
    const SoftLoss without = loss(nan, 1, 0);
    CHECK(without.loss == loss(1, 1, 0).loss);
    CHECK(without.gradient[0] == 0);
    CHECK(std::isfinite(without.gradient[2]));
  }
}

TEST_CASE("soft_cross_entropy: a teacher of another shape is refused") {
  const SoftCrossEntropy op(1);
  const auto infer = [&](const Shape& x, const Shape& teacher) {
    return op.infer(std::vector<TensorSpec>{{x, DType::f32}, {teacher, DType::f32}, {{x[0]}, DType::f32}});
  };
  CHECK(infer({2, 3}, {2, 3})[0].shape == Shape{1});
  CHECK_THROWS(infer({2, 3}, {2, 4}));
  CHECK_THROWS(infer({2}, {2}));
}
