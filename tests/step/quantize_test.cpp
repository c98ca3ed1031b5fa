// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/pool2d.h"
#include "core/passes/pass.h"
#include "core/step/fake_quantize.h"
#include "core/step/quantized_products.h"
#include "cpu/backend.h"
#include "tests/passes/draft.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr const char* kEntry = entry_name::kPredict;

/// A draft whose entry is `predict`.
struct QuantizedDraft : Draft {
  QuantizedDraft() { program.entries[0].name = kEntry; }

  TensorId conv(TensorId x, const std::string& name, int64_t outputs, bool relu = false,
                TensorId residual = kNone) {
    const Shape shape = build.shape(x);
    const TensorId w = parameter(name + ".weight", {outputs, shape[1], 3, 3}),
                   b = parameter(name + ".bias", {outputs});
    return build.emit<Conv2d>({x, w, b, kNone, kNone, residual},
                              Conv2dGeometry{.kernel = {3, 3}, .padding = {1, 1}}, relu);
  }
  TensorId linear(TensorId x, const std::string& name, int64_t outputs) {
    return build.emit<Linear>({x, parameter(name + ".weight", {outputs, build.shape(x)[1]})});
  }
  Calls quantized(const Int8Network& network) {
    run({quantize(std::make_shared<const Int8Network>(network))});
    return calls({}, kEntry);
  }
};

constexpr ValueRange kPositive{.low = 0, .high = 255}, kSigned{.low = -127, .high = 12.7};

Int8Network ranges(const std::map<std::string, ValueRange>& inputs) {
  return {.method = "min_max", .samples = 1, .inputs = inputs, .in_f32 = {}, .file = "net.safetensors"};
}

const std::string kWeights = "quantize_weights", kScales = "product_scales";

}  // namespace

TEST_CASE("a range without negative values has zero as 0, another one as 128") {
  CHECK(quantization_of({.low = 0, .high = 51}) == Quantization{.scale = 0.2, .zero_point = 0});
  CHECK(quantization_of({.low = 0, .high = 0}) == Quantization{.scale = 1, .zero_point = 0});
  CHECK(quantization_of({.low = -1, .high = 254}) == Quantization{.scale = 2, .zero_point = 128});
  CHECK(quantization_of({.low = -254, .high = 1}) == Quantization{.scale = 2, .zero_point = 128});
}

TEST_CASE("products in 8 bits pass bytes to each other, and numbers to other operations") {
  QuantizedDraft net;
  const TensorId first = net.conv(net.input("x", {1, 3, 4, 4}), "one", 3, true);
  const TensorId second = net.conv(first, "two", 3, true), third = net.conv(second, "three", 3);
  net.output("first", first);
  net.output("y", third);
  CHECK(
      net.quantized(ranges({{"one.weight", kPositive}, {"two.weight", kPositive}})) ==
      Calls{
          "i8 quantize_weights(one.weight) {bits=7}",
          "product_scales(quantize_weights, quantize_weights.1, one.bias) {x_scale=1 x_zero_point=0 "
          "y_scale=1}",
          "u8 quantize(x) {scale=1 zero_point=0}",
          "u8 quantized_conv2d(quantize, quantize_weights, product_scales, product_scales.1, -) {kernel=3x3 "
          "stride=1x1 padding=1x1 relu y_is_u8}",
          "i8 quantize_weights(two.weight) {bits=7}",
          "product_scales(quantize_weights, quantize_weights.1, two.bias) {x_scale=1 x_zero_point=0 "
          "y_scale=1}",
          "quantized_conv2d(quantized_conv2d, quantize_weights, product_scales, product_scales.1, -) "
          "{kernel=3x3 "
          "stride=1x1 padding=1x1 relu}",
          "conv2d(quantized_conv2d, three.weight, three.bias, -, -, -) {kernel=3x3 stride=1x1 padding=1x1}",
          "dequantize(quantized_conv2d) {scale=1 zero_point=0}"});
}

TEST_CASE("a residual is added as bytes if its sum is read as bytes, else as numbers") {
  const auto drafted = [](bool is_read) {
    QuantizedDraft net;
    const TensorId first = net.conv(net.input("x", {1, 3, 4, 4}), "one", 3, true);
    TensorId sum = net.conv(net.conv(first, "two", 3, true), "three", 3, true, first);
    if (is_read) sum = net.conv(sum, "four", 3);
    net.output("y", sum);
    std::map<std::string, ValueRange> inputs{
        {"one.weight", kPositive}, {"two.weight", {.low = 0, .high = 510}}, {"three.weight", kPositive}};
    if (is_read) inputs["four.weight"] = kPositive;
    net.quantized(ranges(inputs));
    return net.calls("quantized_conv2d", kEntry);
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(drafted(true)[2], ContainsSubstring("u8 ") && ContainsSubstring(", quantized_conv2d) ") &&
                                   ContainsSubstring("residual_factor=2 y_is_u8"));
  CHECK_THAT(drafted(false)[2], ContainsSubstring(", dequantize) ") && !ContainsSubstring("y_is_u8"));
}

TEST_CASE("a relu is computed as numbers if the range of its result has negative ones") {
  QuantizedDraft net;
  const TensorId first = net.conv(net.input("x", {1, 3, 4, 4}), "one", 3, true);
  net.output("y", net.linear(net.flatten(first), "two", 3));
  net.output("z", net.build.emit<Conv2d>({first, net.parameter("w", {3, 3, 1, 1})}, Conv2dGeometry{}));
  net.quantized(ranges({{"one.weight", kPositive}, {"w", kSigned}}));
  CHECK(net.program.spec(net.program.entry(kEntry).output("z")).dtype == DType::f32);
  const Calls products = net.calls("quantized_conv2d", kEntry);
  REQUIRE(products.size() == 2);
  CHECK(products[0].find("u8") == std::string::npos);
  CHECK(net.calls("quantize", kEntry).back() == "u8 quantize(quantized_conv2d) {scale=1 zero_point=128}");
}

TEST_CASE("weights that two products share, and those in f32, stay as they are; the plan says why") {
  QuantizedDraft net;
  const TensorId x = net.input("x", {2, 3}), w = net.parameter("w", {3, 3});
  const TensorId y = net.build.emit<Linear>({net.build.emit<Linear>({x, w}), w});
  net.output("y", net.linear(y, "head", 5));
  CHECK(quantizable_products(net.program, net.program.entry(kEntry)).size() == 1);
  Int8Network network = ranges({{"head.weight", kSigned}});
  network.in_f32 = {
      {"a.weight", "slower in 8 bits"}, {"b.weight", "slower in 8 bits"}, {"c.weight", "--except"}};
  net.quantized(network);
  CHECK(net.calls("linear", kEntry).size() == 2);
  CHECK(net.program.remarks ==
        std::vector<std::string>{"computed in f32 (--except): c.weight",
                                 "computed in f32 (slower in 8 bits): a.weight, b.weight"});
}

TEST_CASE("ranges of another network, and of padded negative values, are refused") {
  using Catch::Matchers::ContainsSubstring;
  const auto refusal = [](const std::map<std::string, ValueRange>& inputs) -> std::string {
    QuantizedDraft net;
    net.output("y", net.conv(net.input("x", {1, 3, 4, 4}), "one", 3));
    try {
      net.quantized(ranges(inputs));
    } catch (const Error& problem) {
      CHECK(problem.code() == ExitCode::data);
      return problem.what();
    }
    return "";
  };
  CHECK_THAT(refusal({{"one.weight", kPositive}, {"two.weight", kPositive}}),
             ContainsSubstring("net.safetensors has 8-bit weights 'two.weight', for which this network"));
  CHECK_THAT(refusal({{"one.weight", kSigned}}),
             ContainsSubstring("'one.weight' has 8-bit weights and negative"));
}

namespace {

/// A residual block with a normalisation, a pooling and a head, in the types of products before and after.
QuantizedDraft residual_network() {
  QuantizedDraft net;
  Builder& build = net.build;
  const TensorId x = net.input("x", {2, 16, 8, 8});
  TensorId y = net.conv(net.relu(x), "one", 17);
  std::vector<TensorId> norm{y};
  for (const char* name : {"gamma", "beta", "mean"}) norm.push_back(net.parameter(name, {17}));
  norm.push_back(net.parameter("variance", {17}));
  const TensorId first = net.relu(build.emit<BatchNormInference>(norm, 1e-5));
  y = net.relu(net.conv(first, "two", 17));
  y = net.relu(build.emit<Binary>({net.conv(y, "three", 17), first}, Binary::Kind::add));
  y = net.linear(net.flatten(y), "four", 33);  // negative values
  net.output("y", net.linear(y, "head", 5));
  return net;
}

std::map<std::string, std::vector<float>> random_values(const Program& program, uint64_t seed) {
  std::map<std::string, std::vector<float>> values;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.name.empty() || tensor.role == Role::derived) continue;
    RandomStream random(seed, static_cast<uint32_t>(values.size()), 0);
    const auto fan_in = static_cast<float>(numel(tensor.spec.shape) / tensor.spec.shape[0]);
    const float factor = tensor.spec.shape.size() > 1 && tensor.name != "x" ? 2 / std::sqrt(fan_in) : 1;
    std::vector<float>& drawn = values[tensor.name];
    for (int64_t i = 0; i < numel(tensor.spec.shape); ++i)
      drawn.push_back(factor * (3 * random.next_uniform() - 1.5F));
  }
  for (float& value : values.at("variance")) value = std::abs(value) + 0.5F;
  return values;
}

std::vector<double> result_of(const Program& program, const Backend& backend,
                              const std::map<std::string, std::vector<float>>& values,
                              const std::string& output) {
  Session session(program, backend);
  session.set(values);
  session.run(kEntry);
  return session.output(kEntry, output);
}

}  // namespace

TEST_CASE("a network in 8 bits gives nearly the results of f32, alike on the CPU and in the reference") {
  const Backend cpu = make_cpu_backend(2), reference = make_reference_backend();
  const std::vector<Pass> fusions{fold_batch_norm(), fuse_addend(cpu.planner.get()), fuse_relu()};
  for (const uint64_t seed : {1, 2, 3}) {
    INFO("seed " << seed);
    const Program plain = residual_network().run(fusions).program;
    const auto values = random_values(plain, seed);
    QuantizedDraft observed = residual_network();
    observed.run(fusions).run({observe_ranges(std::make_shared<const RangeObservation>())});
    Int8Network network = ranges({});
    for (const NamedTensor& output : observed.program.entry(kEntry).outputs) {
      if (output.name == "y") continue;
      const auto seen = result_of(observed.program, reference, values, output.name);
      const std::string name = output.name.substr(std::string(observed_name::kExtremes).size());
      network.inputs[name] = {.low = seen[0], .high = seen[1]};
    }
    REQUIRE(network.inputs.size() == 5);
    QuantizedDraft narrow = residual_network();
    narrow.run(fusions).run({quantize(std::make_shared<const Int8Network>(network)), dead_code()});
    CHECK(narrow.calls("conv2d", kEntry).empty());
    CHECK(narrow.calls("linear", kEntry).empty());
    const auto wide = result_of(plain, reference, values, "y"),
               expected = result_of(narrow.program, reference, values, "y"),
               found = result_of(narrow.program, cpu, values, "y");
    CHECK(relative_error(expected, wide) < 0.06);
    CHECK(relative_error(expected, wide) > 1e-4);
    CHECK(relative_error(found, expected) < 0.01);  // roundings of sums may differ by one
  }
}

TEST_CASE("what training rounds to is what products in 8 bits compute") {
  const Backend cpu = make_cpu_backend(2), reference = make_reference_backend();
  const FakeQuantizeSpec exact{.weights = {.bits = 7}},
      coarse{.weights = {.bits = 4, .per_tensor = true, .power_of_two = true},
             .activations = {.bits = 5, .power_of_two = true}};
  for (const FakeQuantizeSpec& spec : {exact, coarse}) {
    INFO(spec.weights.bits << " bits");
    QuantizedDraft trained = residual_network();
    trained.program.entries[0].name = entry_name::kTrainStep;
    trained.run({fake_quantize(spec)});
    auto values = random_values(trained.program, 4);
    Int8Network network = ranges({});
    network.method = kFromTraining;
    network.weights = spec.weights;
    network.activations = spec.activations;
    for (auto& [name, numbers] : values) {
      if (name.ends_with(state_suffix::kRange)) numbers = {0, 0};
    }
    values[state_name::kStep] = {0};
    Session session(trained.program, reference);
    session.set(values);
    session.run(entry_name::kTrainStep);
    values.erase(state_name::kStep);
    for (const Tensor& tensor : trained.program.tensors) {
      if (!tensor.name.ends_with(state_suffix::kRange)) continue;
      const std::vector<double> range = session.persistent(tensor.name);
      CHECK(range[1] > 0);
      network.inputs[tensor.name.substr(0, tensor.name.size() - 6)] = {.low = range[0], .high = range[1]};
      values.erase(tensor.name);
    }
    REQUIRE(network.inputs.size() == 5);
    CHECK(network.inputs.at("one.weight").low == 0);
    CHECK(network.inputs.at("head.weight").low < 0);
    QuantizedDraft narrow = residual_network();
    narrow.run({fold_batch_norm(), fuse_addend(cpu.planner.get()), fuse_relu(),
                quantize(std::make_shared<const Int8Network>(network)), dead_code()});
    const std::vector<double> rounded = session.output(entry_name::kTrainStep, "y");
    const Program plain = residual_network().program;
    const double in_int8 = relative_error(result_of(narrow.program, reference, values, "y"), rounded),
                 in_f32 = relative_error(result_of(plain, reference, values, "y"), rounded);
    INFO(in_int8 << " in 8 bits, " << in_f32 << " in f32");
    CHECK(in_int8 < 0.1 * in_f32);
  }
}

TEST_CASE("other readers of a product's input get rounded numbers if training rounded them") {
  for (const bool is_from_training : {false, true}) {
    QuantizedDraft net;
    const TensorId x = net.relu(net.input("x", {1, 3, 4, 4}));
    net.output("y", net.build.emit<Binary>({net.conv(x, "one", 3), x}, Binary::Kind::add));
    Int8Network network = ranges({{"one.weight", kPositive}});
    if (is_from_training) network.method = kFromTraining;
    net.quantized(network);
    CHECK(net.calls("add", kEntry) ==
          Calls{is_from_training ? "add(quantized_conv2d, dequantize)" : "add(quantized_conv2d, relu)"});
  }
}
