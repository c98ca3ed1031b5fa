// SPDX-License-Identifier: Apache-2.0
#include "core/step/fake_quantize.h"

#include "tests/catch.h"

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "tests/passes/draft.h"

using namespace trainer;

namespace {

FakeQuantizeSpec rounding(const std::vector<std::string>& except = {}) {
  return {.weights = {.bits = 7}, .begin = 3, .except = except, .origin_of = [](const std::string& key) {
            return Origin{{"net.yaml", 1, 1}, "compression.quantize." + key};
          }};
}

/// Two convolutions with padding, the first of which reads numbers with signs, a sum, and a linear layer.
Draft padded_network() {
  Draft net;
  const Conv2dGeometry same{.kernel = {3, 3}, .padding = {1, 1}};
  const auto conv = [&](TensorId x, const std::string& name) {
    return net.build.emit<Conv2d>({x, net.parameter(name, {2, net.build.shape(x)[1], 3, 3})}, same);
  };
  const TensorId x = net.relu(conv(net.input("x", {2, 3, 4, 4}), "one"));
  const TensorId sum = net.build.emit<Binary>({conv(x, "two"), x}, Binary::Kind::add);
  net.loss(net.build.emit<Linear>({net.flatten(sum), net.parameter("three", {5, 32})}));
  return net;
}

}  // namespace

TEST_CASE("fake_quantize: a product reads a rounded weight and input, and so do the input's other readers") {
  Draft net = padded_network();
  net.run({fake_quantize(rounding())});
  const std::string moving = "{bits=8 moves begin=3}", weights = "{bits=7 begin=3}";
  Calls calls = net.calls();
  calls.resize(calls.size() - 1);  // the loss
  CHECK(calls ==
        Calls{"conv2d(x, one, -, -, -, -) {kernel=3x3 stride=1x1 padding=1x1}", "relu(conv2d)",
              "fake_quantize(relu, two.range, counter.step) " + moving,
              "lerp(two.range, fake_quantize.1, -) {share=0.1}", "assign(two.range, lerp)",
              "fake_quantize_weights(two, counter.step) " + weights,
              "conv2d(fake_quantize, fake_quantize_weights, -, -, -, -) {kernel=3x3 stride=1x1 padding=1x1}",
              "add(conv2d, fake_quantize)", "reshape(add)",
              "fake_quantize(reshape, three.range, counter.step) " + moving,
              "lerp(three.range, fake_quantize.1, -) {share=0.1}", "assign(three.range, lerp)",
              "fake_quantize_weights(three, counter.step) " + weights,
              "linear(fake_quantize, fake_quantize_weights, -, -)"});
  REQUIRE(net.program.remarks.size() == 2);
  CHECK(net.program.remarks[1].ends_with("may be negative: one"));
  CHECK(fake_quantized(padded_network().program, rounding()) == std::vector<std::string>{"two", "three"});
}

TEST_CASE("fake_quantize: gradients reach weights through rounding, and a normalisation that is folded") {
  Draft net;
  const TensorId x = net.input("x", {2, 3, 4, 4}), w = net.parameter("w", {2, 3, 1, 1});
  std::vector<TensorId> norm{net.build.emit<Conv2d>({x, w}, Conv2dGeometry{})};
  for (const char* name : {"gamma", "beta"}) norm.push_back(net.parameter(name, {2}));
  for (const char* name : {"mean", "variance"})
    norm.push_back(net.program.persistent(name, {{2}, DType::f32}, Role::state, {}));
  const TensorId y = net.build.emit<BatchNormInference>(norm, 1e-5);
  net.loss(net.build.emit<Linear>({net.flatten(y), net.parameter("head", {5, 32})}));
  net.run({fake_quantize(rounding()), autodiff()});
  CHECK(net.calls("batch_norm_inference").empty());
  std::vector<std::string> trained;
  for (const ParameterGradient& each : net.program.entries[0].gradients)
    trained.push_back(net.program.tensor(each.parameter).name);
  CHECK(trained == std::vector<std::string>{"w", "gamma", "beta", "head"});
  verify(net.program);
}

TEST_CASE("fake_quantize: evaluation rounds by ranges that it leaves, targets stay, products share ranges") {
  Draft net;
  const TensorId x = net.input("x", {2, 3});
  const TensorId a = net.build.emit<Linear>({x, net.parameter("a", {3, 3})}),
                 b = net.build.emit<Linear>({x, net.parameter("b", {3, 3})});
  const TensorId sum = net.build.emit<Binary>({a, b}, Binary::Kind::add);
  net.output("distance", net.build.emit<Binary>({sum, x}, Binary::Kind::mul));
  Entry evaluation = net.program.entries[0];
  evaluation.name = entry_name::kEvaluate;
  net.program.entries.push_back(std::move(evaluation));
  net.run({fake_quantize(rounding({"c*"}))});
  CHECK(net.calls("mul") == Calls{"mul(add, x)"});
  CHECK(net.calls("fake_quantize", entry_name::kEvaluate) ==
        Calls{"fake_quantize(x, a.range, counter.step) {bits=8 begin=3}"});
  CHECK(net.calls("assign", entry_name::kEvaluate).empty());
  CHECK(net.calls("assign") == Calls{"assign(a.range, lerp)", "assign(b.range, lerp)"});
}

TEST_CASE("fake_quantize: excepted products stay, and without others there is an error") {
  Draft net = padded_network();
  net.run({fake_quantize(rounding({"t*o"}))});
  CHECK(net.calls("fake_quantize_weights").size() == 1);
  const auto refused = [](const std::vector<std::string>& except) {
    try {
      fake_quantized(padded_network().program, rounding(except));
    } catch (const Error& problem) {
      CHECK(problem.code() == ExitCode::recipe);
      return std::string(problem.what());
    }
    return std::string();
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(refused({"t*"}), ContainsSubstring("there is nothing to quantise"));
  CHECK_THAT(refused({"four"}), ContainsSubstring("matches 'four'"));
}
