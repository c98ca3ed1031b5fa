// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/dropout.h"

#include <cmath>
#include <numeric>
#include "tests/catch.h"

#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/stochastic_depth.h"
#include "core/passes/pass.h"
#include "cpu/backend.h"
#include "tests/ops/harness.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

struct Draw {
  Shape shape{8, 125};
  double p = 0.5;
  uint64_t key = 7;
  int step = 0;
  int first_sample = 0;
};

/// The elements of a tensor of ones after dropout.
std::vector<double> factors(const Backend& backend, const Draw& draw) {
  Program program;
  program.entries.emplace_back("draw");
  Builder build(program, program.entries[0]);
  const TensorId x = program.input("x", {draw.shape, DType::f32});
  const TensorId sample = program.input("sample", {{draw.shape[0]}, DType::i32});
  const TensorId step = program.input("step", {{1}, DType::i32});
  const DropoutSettings settings{.p = draw.p, .key = draw.key};
  program.entries[0].outputs.push_back({"y", build.emit<Dropout>({x, sample, step}, settings)});
  Session session(program, backend);
  std::vector<float> samples(static_cast<size_t>(draw.shape[0]));
  std::iota(samples.begin(), samples.end(), static_cast<float>(draw.first_sample));
  session.set({{"x", std::vector<float>(static_cast<size_t>(numel(draw.shape)), 1.0f)},
               {"sample", samples},
               {"step", {static_cast<float>(draw.step)}}});
  session.run("draw");
  return session.output("draw", "y");
}

std::vector<double> on_reference(const Draw& draw) {
  const Backend backend = make_reference_backend();
  return factors(backend, draw);
}

}  // namespace

TEST_CASE("both backends draw the same masks") {
  const auto cpu = make_cpu_backend(2);
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 2}, Shape{3, 31}, Shape{2, 17, 3, 5}, Shape{7, 5001}}) {
    for (const double p : {0.1, 0.5, 0.9}) {
      for (int step : {0, 1, 1000000}) {
        const Draw draw{.shape = shape, .p = p, .key = 0xFEDCBA9876543210u, .step = step, .first_sample = 3};
        CHECK(factors(cpu, draw) == on_reference(draw));
      }
    }
  }
}

TEST_CASE("as many elements stay as should, each scaled") {
  for (const double p : {0.1, 0.25, 0.5, 0.9}) {
    for (uint64_t key : {1, 2, 3}) {
      const Shape shape{100, 1000};
      double kept = 0;
      for (double y : on_reference({.shape = shape, .p = p, .key = key})) {
        REQUIRE((y == 0 || y == Approx(1 / (1 - p))));
        kept += y != 0;
      }
      const double count = static_cast<double>(numel(shape));
      CHECK(std::abs(kept / count - (1 - p)) < 4 * std::sqrt(p * (1 - p) / count));
    }
  }
}

TEST_CASE("a batch in two parts has the masks of the whole") {
  const auto cpu = make_cpu_backend(2);
  const std::vector<double> whole = factors(cpu, {.shape = {8, 33}});
  std::vector<double> parts = factors(cpu, {.shape = {3, 33}});
  const std::vector<double> rest = factors(cpu, {.shape = {5, 33}, .first_sample = 3});
  parts.insert(parts.end(), rest.begin(), rest.end());
  CHECK(parts == whole);
}

TEST_CASE("steps, keys and samples have masks of their own") {
  const std::vector<double> base = on_reference({});
  CHECK(on_reference({}) == base);
  for (const Draw& other :
       {Draw{.step = 1}, Draw{.key = 8}, Draw{.key = (uint64_t{1} << 32) + 7}, Draw{.first_sample = 1}}) {
    const std::vector<double> drawn = on_reference(other);
    double same = 0;
    for (size_t i = 0; i < base.size(); ++i) same += drawn[i] == base[i];
    CHECK(std::abs(same / static_cast<double>(base.size()) - 0.5) < 0.1);  // six standard deviations
  }
}

TEST_CASE("the gradient of dropout draws the same mask again") {
  for (const Shape& shape : {Shape{3, 31}, Shape{2, 17, 5, 3}}) {
    check_program("dropout", [&](Sketch& sketch) {
      const TensorId x = sketch.parameter("x", shape);
      const TensorId samples = sketch.integers("samples", shape[0], 1000),
                     step = sketch.integers("step", 1, 1000);
      const TensorId y =
          sketch.build().emit<Dropout>({x, samples, step}, DropoutSettings{.p = 0.3, .key = 5});
      sketch.output("y", y);
      sketch.loss(y);
    });
  }
}

TEST_CASE("dropout behind a convolution counts elements in the tensor's order, not in memory's") {
  check_program("convolution", [](Sketch& sketch) {
    const TensorId x = sketch.input("x", {2, 3, 5, 5}), w = sketch.parameter("w", {17, 3, 3, 3});
    const TensorId samples = sketch.integers("samples", 2, 1000), step = sketch.integers("step", 1, 1000);
    const TensorId y = sketch.build().emit<Conv2d>({x, w, kNone}, Conv2dGeometry{.kernel = {3, 3}});
    sketch.loss(sketch.build().emit<Dropout>({y, samples, step}, DropoutSettings{.p = 0.5, .key = 9}));
  });
}

TEST_CASE("stochastic depth keeps or drops whole samples, as many as it should") {
  constexpr int64_t kSamples = 5000, kWidth = 3;
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  for (const double p : {0.1, 0.5, 0.8}) {
    std::vector<std::vector<double>> drawn;
    for (const Backend* backend : {&cpu, &reference}) {
      Program program;
      program.entries.emplace_back("draw");
      Builder build(program, program.entries[0]);
      const TensorId x = program.input("x", {{kSamples, kWidth}, DType::f32});
      const TensorId sample = program.input("sample", {{kSamples}, DType::i32}),
                     step = program.input("step", {{1}, DType::i32});
      const DropoutSettings settings{.p = p, .key = 7};
      program.entries[0].outputs.push_back({"y", build.emit<StochasticDepth>({x, sample, step}, settings)});
      Session session(program, *backend);
      std::vector<float> samples(kSamples);
      std::iota(samples.begin(), samples.end(), 0.0f);
      session.set({{"x", std::vector<float>(kSamples * kWidth, 1.0f)}, {"sample", samples}, {"step", {3}}});
      session.run("draw");
      drawn.push_back(session.output("draw", "y"));
    }
    CHECK(drawn[0] == drawn[1]);
    double kept = 0;
    for (size_t n = 0; n < kSamples; ++n) {
      const double first = drawn[0][n * kWidth];
      REQUIRE((first == 0 || first == Approx(1 / (1 - p))));
      for (size_t i = 1; i < kWidth; ++i) REQUIRE(drawn[0][n * kWidth + i] == first);
      kept += first != 0;
    }
    CHECK(std::abs(kept / kSamples - (1 - p)) < 4 * std::sqrt(p * (1 - p) / kSamples));
  }
}

TEST_CASE("the gradient of stochastic depth drops the same samples, in every layout") {
  for (int64_t channels : {int64_t{1}, int64_t{17}, int64_t{32}}) {
    check_program("stochastic depth", [&](Sketch& sketch) {
      const TensorId x = sketch.input("x", {5, 3, 5, 4}), w = sketch.parameter("w", {channels, 3, 3, 3});
      const TensorId samples = sketch.integers("samples", 5, 1000), step = sketch.integers("step", 1, 1000);
      const TensorId y = sketch.build().emit<Conv2d>({x, w, kNone}, Conv2dGeometry{.kernel = {3, 3}});
      const TensorId z =
          sketch.build().emit<StochasticDepth>({y, samples, step}, DropoutSettings{.p = 0.4, .key = 9});
      sketch.output("z", z);
      sketch.loss(z);
    });
  }
}
