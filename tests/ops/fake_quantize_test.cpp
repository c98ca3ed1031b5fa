// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/fake_quantize.h"

#include <cmath>
#include <limits>

#include "core/graph/ops/lerp.h"
#include "core/graph/ops/quantize.h"
#include "tests/ops/fixture_program.h"
#include "tests/ops/harness.h"

using namespace trainer;

namespace {

constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
constexpr float kBeyondAll = std::numeric_limits<float>::infinity();

/// The outputs of a node by name, of every backend in turn.
using Results = std::map<std::string, std::vector<double>>;
struct Feed {
  TensorSpec spec;
  std::vector<float> values;
};

void on_all_backends(const std::shared_ptr<const Operation>& op, const std::vector<Feed>& inputs,
                     const std::vector<std::string>& outputs, const std::function<void(Results&)>& check) {
  Program program{.tensors = {}, .entries = {Entry(kFixtureEntry)}};
  Builder build(program, program.entries[0]);
  std::map<std::string, std::vector<float>> values;
  std::vector<TensorId> ids;
  for (const Feed& feed : inputs) {
    const std::string name = fmt::format("input{}", ids.size());
    ids.push_back(feed.values.empty() ? kNone : program.input(name, feed.spec));
    if (!feed.values.empty()) values[name] = feed.values;
  }
  const std::vector<TensorId> made = build.emit_all(op, ids);
  for (size_t i = 0; i < outputs.size(); ++i) program.entries[0].outputs.push_back({outputs[i], made[i]});
  for (const Side& side : sides()) {
    INFO(side.backend.planner->name());
    Session session(program, side.backend);
    session.set(values);
    session.run(kFixtureEntry);
    Results results;
    for (const std::string& name : outputs) results[name] = session.output(kFixtureEntry, name);
    check(results);
  }
}

Feed numbers(const std::vector<float>& values) {
  return {{{static_cast<int64_t>(values.size())}, DType::f32}, values};
}
Feed step(float now) {
  return {{{1}, DType::i32}, {now}};
}

/// Activations rounded to the levels of a range that stays.
void check_rounded(const ActivationLevels& levels, const std::vector<float>& range,
                   const std::vector<float>& x, const std::vector<double>& expected) {
  on_all_backends(std::make_shared<FakeQuantize>(levels, false), {numbers(x), numbers(range)}, {"y"},
                  [&](Results& results) {
                    for (size_t i = 0; i < x.size(); ++i) {
                      INFO(x[i]);
                      if (std::isnan(expected[i])) {
                        CHECK(std::isnan(results["y"][i]));
                      } else {
                        CHECK(results["y"][i] == expected[i]);
                      }
                    }
                  });
}

}  // namespace

TEST_CASE("fake_quantize: PyTorch's values and gradients") {
  const Fixture fixture("fake_quantize");
  for_each_case(fixture, "activations", "x", [&](const std::string& name) {
    const std::vector<double> settings = fixture.doubles(name + "/settings");
    FixtureProgram program(fixture, name);
    const ActivationLevels levels{static_cast<int64_t>(settings[0]), settings[1] != 0};
    program.operation(std::make_shared<FakeQuantize>(levels, true), {"x", "range"});
    program.check();
  });
  for_each_case(fixture, "weights", "x", [&](const std::string& name) {
    const std::vector<double> settings = fixture.doubles(name + "/settings");
    FixtureProgram program(fixture, name);
    const WeightLevels levels{static_cast<int64_t>(settings[0]), settings[2] != 0, settings[1] != 0};
    program.operation(std::make_shared<FakeQuantizeWeights>(levels), {"x"});
    program.check();
  });
}

TEST_CASE("fake_quantize: ties go to even levels, infinities saturate, NaN stays") {
  // A scale of 1/2, with and without negative numbers.
  check_rounded({.bits = 4}, {0, 7.5F},
                {0.25F, 0.75F, 1.2F, 7.5F, 100, -3, kBeyondAll, -kBeyondAll, kNoNumber},
                {0, 1, 1, 7.5, 7.5, 0, 7.5, 0, kNoNumber});
  check_rounded({.bits = 4}, {-3.5F, 1}, {-0.25F, -0.75F, -3.5F, -4, -5, 3.5F, 9, kNoNumber},
                {0, -1, -3.5, -4, -4, 3.5, 3.5, kNoNumber});
  check_rounded({.bits = 8, .power_of_two = true}, {0, 200}, {200, 199.4F, 255, 300}, {200, 199, 255, 255});
  check_rounded({}, {0, 0}, {3, -3, kBeyondAll, kNoNumber}, {3, -3, kBeyondAll, kNoNumber});
}

TEST_CASE("fake_quantize: numbers are those that bytes of the same range stand for") {
  Program program{.tensors = {}, .entries = {Entry(kFixtureEntry)}};
  Builder build(program, program.entries[0]);
  const TensorId x = program.input("x", {{4000}, DType::f32}),
                 range = program.input("range", {{2}, DType::f32});
  const float low = -1.7F, high = 2.3F;
  const RangeScale scale = ActivationLevels{}.of_range(low, high);
  const Quantization bytes{.scale = scale.scale, .zero_point = scale.zero_point};
  program.entries[0].outputs = {{"fake", build.emit<FakeQuantize>({x, range}, ActivationLevels{}, false)},
                                {"bytes", build.emit<Dequantize>({build.emit<Quantize>({x}, bytes)}, bytes)}};
  std::vector<float> values;
  for (int i = 0; i < 4000; ++i) values.push_back(static_cast<float>(i) * 0.001F - 2);
  const Backend cpu = make_cpu_backend(2);
  Session session(program, cpu);
  session.set({{"x", values}, {"range", {low, high}}});
  session.run(kFixtureEntry);
  CHECK(session.output(kFixtureEntry, "fake") == session.output(kFixtureEntry, "bytes"));
}

TEST_CASE("fake_quantize: a range widens to a batch at once, and shrinks slowly") {
  const auto check_moves = [](const std::vector<float>& range, const std::vector<float>& x, double low,
                              double high, double rounded) {
    on_all_backends(std::make_shared<FakeQuantize>(ActivationLevels{}, true), {numbers(x), numbers(range)},
                    {"y", "fresh"}, [&](Results& results) {
                      const auto moved = [&](size_t end) {
                        const double old = range[end];
                        return old + FakeQuantize::kShare * (results["fresh"][end] - old);
                      };
                      CHECK(moved(0) == Approx(low).margin(1e-6));
                      CHECK(moved(1) == Approx(high).margin(1e-6));
                      CHECK(results["y"][0] == Approx(rounded));
                    });
  };
  check_moves({0, 0}, {2.55F, 1, 0.5F}, 0, 2.55, 2.55);
  check_moves({0, 2}, {2.55F, 1}, 0, 2.55, 2.55);
  check_moves({0, 2.55F}, {1.004F, 1}, 0, 2.55 - 0.1 * (2.55 - 1.004), 1);
  check_moves({-1, 0}, {1.27F, 0.5F}, -0.9, 1.27, 1.27);
  check_moves({-1.27F, 1}, {0.014F, -2.54F}, -2.54, 1 - 0.1 * (1 - 0.014), 0.02);
  check_moves({0, 1}, {0.2F, kBeyondAll, -kBeyondAll}, 0, 0.92, 0.2F);
}

TEST_CASE("fake_quantize: a range that has shrunk to almost nothing rounds nothing") {
  for (const ActivationLevels levels :
       {ActivationLevels{}, ActivationLevels{.bits = 2, .power_of_two = true}}) {
    for (const double high : {0.0, 1e-45, 1e-40, 1e-38}) {
      const RangeScale range = levels.of_range(0, high);
      CHECK(range.scale == 0);
      CHECK(LevelRounding(range, levels)(0) == 0);
      CHECK(LevelRounding(range, levels)(3) == 3);
    }
  }
}

TEST_CASE("fake_quantize: begins with its step") {
  const std::vector<float> x{1, 0.3F, -0.7F};
  for (const bool of_weights : {false, true}) {
    std::shared_ptr<const Operation> op =
        std::make_shared<FakeQuantize>(ActivationLevels{.bits = 2}, true, FakeQuantizeBegin{5});
    if (of_weights)
      op = std::make_shared<FakeQuantizeWeights>(WeightLevels{.bits = 2, .per_tensor = true},
                                                 FakeQuantizeBegin{5});
    for (const float now : {0, 4, 5, 6}) {
      std::vector<Feed> inputs{numbers(x), numbers({0, 0}), step(now)};
      if (of_weights) inputs.erase(inputs.begin() + 1);
      on_all_backends(op, inputs, {"y"}, [&](Results& results) {
        INFO(now);
        CHECK(results["y"][1] == (now < 5 ? static_cast<double>(0.3F) : 0));
        CHECK(results["y"][2] == (now < 5 ? static_cast<double>(-0.7F) : -1));
      });
    }
  }
}

TEST_CASE("fake_quantize: the CPU against the reference") {
  for (const Shape& shape : {Shape{1}, Shape{3, 31}, Shape{17, 3, 3, 3}, Shape{2, 5000}, Shape{1, 20001}}) {
    for (const bool moves : {false, true}) {
      check_program(fmt::format("fake_quantize {} {}", to_string(shape), moves), [&](Sketch& sketch) {
        const TensorId x = sketch.input("x", shape), range = sketch.input("range", {2});
        sketch.values["range"] = {-1, 0.5F};
        const auto made = sketch.build().emit_all(
            std::make_shared<FakeQuantize>(ActivationLevels{.bits = 5}, moves), {x, range});
        sketch.output("y", made[FakeQuantize::kY]);
        if (moves) sketch.output("fresh", made[FakeQuantize::kFresh]);
        sketch.loss(sketch.parameter("p", {3}));
      });
    }
    for (const bool per_tensor : {false, true}) {
      check_program(fmt::format("fake_quantize_weights {} {}", to_string(shape), per_tensor),
                    [&](Sketch& sketch) {
                      const TensorId w = sketch.input("w", shape);
                      sketch.output("y", sketch.build().emit<FakeQuantizeWeights>(
                                             {w}, WeightLevels{.bits = 5, .per_tensor = per_tensor}));
                      sketch.loss(sketch.parameter("p", {3}));
                    });
    }
  }
}

TEST_CASE("fake_quantize: weights of an output that are zero stay, and infinite ones saturate") {
  on_all_backends(
      std::make_shared<FakeQuantizeWeights>(WeightLevels{.bits = 3}),
      {{{{3, 2}, DType::f32}, {0, 0, kBeyondAll, 3, kNoNumber, 3}}}, {"y"}, [](Results& results) {
        const std::vector<double>& y = results["y"];
        CHECK((y[0] == 0 && y[1] == 0 && y[2] == 3 && y[3] == 3 && std::isnan(y[4]) && std::isnan(y[5])));
      });
}

TEST_CASE("fake_quantize: what does not fit is refused, and a fixed range has no gradient") {
  const TensorSpec x{{3}, DType::f32}, range{{2}, DType::f32}, now{{1}, DType::i32};
  const auto infer = [&](int64_t bits, std::vector<TensorSpec> inputs) {
    return FakeQuantize(ActivationLevels{.bits = bits}, true).infer(inputs);
  };
  CHECK(infer(2, {x, range, now}) == std::vector<TensorSpec>{x, range});
  CHECK_THROWS(infer(1, {x, range, now}));
  CHECK_THROWS(infer(9, {x, range, now}));
  CHECK_THROWS(infer(8, {x, x, now}));
  CHECK_THROWS(infer(8, {x, range, range}));
  CHECK_THROWS(infer(8, {{{3}, DType::bf16}, range, now}));
  CHECK_THROWS(FakeQuantizeWeights(WeightLevels{.bits = 9}).infer(std::vector<TensorSpec>{x, now}));
  const Sketch sketch(1);
  Program program{.tensors = {}, .entries = {Entry("run")}};
  Builder build(program, program.entries[0]);
  const Node node{.op = std::make_shared<FakeQuantize>(ActivationLevels{}, false),
                  .inputs = {0, 1, kNone},
                  .outputs = {2},
                  .origin = {}};
  CHECK_THROWS_AS(
      node.op->gradient({.build = build, .node = node, .dy = {3}, .wanted = {true, false, false}}),
      std::logic_error);
}
