// SPDX-License-Identifier: Apache-2.0
#include "core/layers/network.h"

#include <cmath>
#include "tests/catch.h"

#include "core/graph/ops/concat.h"
#include "core/graph/ops/stochastic_depth.h"
#include "tests/reference/networks.h"

using namespace trainer;
using Catch::Matchers::ContainsSubstring;

namespace {

using Parameters = std::vector<std::pair<std::string, Shape>>;

Parameters parameters_of(const Program& program) {
  Parameters found;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::parameter) found.emplace_back(tensor.name, tensor.spec.shape);
  }
  return found;
}

/// The message that reading, checking or building the network throws.
std::string problem(const std::string& text) {
  try {
    forward_program(network_from(text), 2);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::recipe);
    const std::string found = error.what();  // its last line only counts the problems
    return found.substr(0, found.find('\n'));
  }
  return "fine";
}

void check_problem(const std::string& text, const std::string& message) {
  INFO(text);
  CHECK(problem(text) == message);
}

}  // namespace

TEST_CASE("the shipped networks have the parameters of their papers' names and shapes") {
  CHECK(parameters_of(forward_program(network_from(source_text("configs/models/mlp.yaml")), 4)) ==
        Parameters{{"fc1.weight", {1000, 784}},
                   {"fc1.bias", {1000}},
                   {"fc2.weight", {100, 1000}},
                   {"fc2.bias", {100}},
                   {"fc3.weight", {10, 100}},
                   {"fc3.bias", {10}}});
  CHECK(parameters_of(forward_program(network_from(source_text("configs/models/lenet.yaml")), 4)) ==
        Parameters{{"conv1.weight", {32, 1, 3, 3}},
                   {"conv1.bias", {32}},
                   {"conv2.weight", {64, 32, 3, 3}},
                   {"conv2.bias", {64}},
                   {"fc1.weight", {128, 9216}},
                   {"fc1.bias", {128}},
                   {"fc2.weight", {10, 128}},
                   {"fc2.bias", {10}}});
}

TEST_CASE("layers without a name are called by their number") {
  const std::string text = R"(
input: [4, 6, 6]
layers:
  - conv2d: {out_channels: 6, kernel_size: [3, 1], groups: 2, bias: false}
  - relu
  - global_avg_pool2d
  - flatten
  - linear: 3
)";
  CHECK(parameters_of(forward_program(network_from(text), 4)) ==
        Parameters{{"0.weight", {6, 2, 3, 1}}, {"4.weight", {3, 6}}, {"4.bias", {3}}});
}

TEST_CASE("layers read by name make a graph") {
  const std::string text = R"(
input: [3, 4, 4]
layers:
  - conv2d: {out_channels: 3, kernel_size: 1, name: a}
  - add: {inputs: [a, input], name: sum}
  - concat: {inputs: [sum, a, input], name: all}
  - mul: {inputs: [all, all]}
  - reshape: [16, -1]
  - flatten
  - linear: 2
)";
  const Program program = forward_program(network_from(text), 2);
  std::vector<std::string> names;
  for (const Node& node : program.entries[0].nodes) {
    names.push_back(std::string(node.op->name()) + to_string(program.spec(node.outputs[0]).shape));
  }
  CHECK(names == std::vector<std::string>{"conv2d2x3x4x4", "add2x3x4x4", "concat2x9x4x4", "mul2x9x4x4",
                                          "reshape2x16x9", "reshape2x144", "linear2x2", "cross_entropy1"});
}

TEST_CASE("dropout is there in training only, and not at all where it drops nothing") {
  const Program program = forward_program(
      network_from("{input: [1, 2, 2], layers: [flatten, {dropout: 0.5}, {dropout: 0}, {linear: 2}]}"), 2);
  auto count = [&](size_t entry) {
    int found = 0;
    for (const Node& node : program.entries[entry].nodes) found += node.op->name() == "dropout";
    return found;
  };
  CHECK(count(0) == 1);
  CHECK(count(1) == 0);
}

TEST_CASE("names that are unknown, taken or reserved are errors at their place") {
  check_problem(
      "input: [1, 4, 4]\nlayers:\n  - flatten: {name: body}\n  - linear: {out_features: 2, inputs: [bdy]}\n",
      "test.yaml:4:31: error: layers[1].linear.inputs: no earlier layer is named 'bdy'; did you mean "
      "'body'?");
  check_problem(
      "input: [1, 4, 4]\nlayers:\n  - relu: {inputs: [later]}\n  - flatten: {name: later}\n  - linear: 2\n",
      "test.yaml:3:12: error: layers[0].relu.inputs: no earlier layer is named 'later'");
  check_problem("input: [1, 4, 4]\nlayers:\n  - flatten: {name: a}\n  - relu: {name: a}\n",
                "test.yaml:4:12: error: layers[1].relu.name: another layer is already named 'a'");
  check_problem("input: [1, 4, 4]\nlayers:\n  - flatten: {name: input}\n",
                "test.yaml:3:15: error: layers[0].flatten.name: 'input' is reserved for the input and for "
                "unnamed layers");
  check_problem(
      "input: [1, 4, 4]\nlayers:\n  - flatten: {name: 3}\n",
      "test.yaml:3:15: error: layers[0].flatten.name: '3' is reserved for the input and for unnamed layers");
}

TEST_CASE("a linear layer of a sequence maps each position with the same weights") {
  const Network network = network_from("input: [5, 7]\nlayers:\n  - linear: 4\n  - relu\n  - linear: 3\n");
  Program program{.tensors = {}, .entries = {Entry("run")}};
  Builder build(program, program.entries[0]);
  const TensorId x = program.input("x", {{2, 5, 7}, DType::f32});
  const std::vector<TensorId> outputs = network.build({.build = build}, {x});
  CHECK(program.spec(outputs[0]).shape == Shape{2, 5, 4});
  CHECK(program.spec(outputs[2]).shape == Shape{2, 5, 3});
  CHECK(parameters_of(program) ==
        Parameters{{"0.weight", {4, 7}}, {"0.bias", {4}}, {"2.weight", {3, 4}}, {"2.bias", {3}}});
}

namespace {

/// Two outputs: the first column, and the others.
class Split final : public Layer {
 public:
  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const int64_t columns = context.build.shape(x[0])[1];
    return {context.build.emit<Slice>({x[0]}, 1, 0, 1), context.build.emit<Slice>({x[0]}, 1, 1, columns - 1)};
  }
};

/// The shapes of the outputs of a network's layers, for a batch of two rows of four; its first layer has two
/// outputs.
std::vector<Shape> outputs_of(const std::string& layers) {
  Network network = network_from("input: [4]\nlayers:\n  - relu: {name: parts}\n" + layers);
  auto split = std::make_unique<Split>();
  split->name = network.layers[0]->name;
  network.layers[0] = std::move(split);
  Program program{.tensors = {}, .entries = {Entry("run")}};
  Builder build(program, program.entries[0]);
  const TensorId x = program.input("x", {{2, 4}, DType::f32});
  std::vector<Shape> shapes;
  for (const TensorId id : network.build({.build = build}, {x})) shapes.push_back(program.spec(id).shape);
  return shapes;
}

}  // namespace

TEST_CASE("a layer may have several outputs: the first by its name, each by its number") {
  CHECK(outputs_of("  - relu\n") == std::vector<Shape>{{2, 1}, {2, 1}});
  CHECK(outputs_of("  - relu: {inputs: [parts]}\n") == std::vector<Shape>{{2, 1}, {2, 1}});
  CHECK(outputs_of("  - relu: {inputs: [\"parts:1\"]}\n") == std::vector<Shape>{{2, 1}, {2, 3}});
  CHECK(outputs_of("  - concat: {inputs: [\"parts:1\", \"parts:0\", input]}\n") ==
        std::vector<Shape>{{2, 1}, {2, 8}});
}

namespace {

/// The network's output for a batch of two rows: numbers (2, 3), and categories (2, 2) of five.
struct TwoInputs {
  explicit TwoInputs(const std::string& layers) {
    const Network network = network_from("input: [3]\nlayers:\n" + layers);
    Builder build(program, program.entries[0]);
    const std::vector<TensorId> inputs = {program.input("numbers", {{2, 3}, DType::f32}),
                                          program.input("categories", {{2, 2}, DType::i32})};
    output = network.build({.build = build}, inputs).back();
  }

  Program program{.tensors = {}, .entries = {Entry("run")}};
  TensorId output = kNone;
};

}  // namespace

TEST_CASE("a network may have several inputs: the first is `input`, each is `input` and its number") {
  const TwoInputs two(
      "  - embedding: {vocab_size: 5, features: 4, inputs: [\"input:1\"]}\n"
      "  - flatten\n"
      "  - concat: {inputs: [input, 1, \"input:0\"]}\n"
      "  - linear: 2\n");
  CHECK(two.program.spec(two.output).shape == Shape{2, 2});
  CHECK(parameters_of(two.program) ==
        Parameters{{"0.weight", {5, 4}}, {"3.weight", {2, 3 + 2 * 4 + 3}}, {"3.bias", {2}}});
  CHECK_THROWS_WITH(
      TwoInputs("  - relu: {inputs: [\"input:2\"]}\n"),
      ContainsSubstring("layers[0].relu.inputs: reads input 2 of a network whose last is input 1"));
  CHECK_THROWS_WITH(TwoInputs("  - embedding: {vocab_size: 5, features: 4}\n"),
                    ContainsSubstring("layers[0].embedding"));
}

TEST_CASE("an output that a layer does not have is an error at the inputs") {
  CHECK_THROWS_WITH(
      outputs_of("  - relu: {inputs: [\"parts:2\"]}\n"),
      ContainsSubstring("layers[1].relu.inputs: reads output 2 of a layer whose last is output 1"));
  CHECK_THROWS_WITH(outputs_of("  - relu: {inputs: [\"input:1\"]}\n"),
                    ContainsSubstring("of a network whose last is input 0"));
  check_problem("input: [1, 4, 4]\nlayers:\n  - relu: {name: a}\n  - relu: {inputs: [\"b:1\"]}\n",
                "test.yaml:4:12: error: layers[1].relu.inputs: no earlier layer is named 'b:1'");
  CHECK_THROWS_WITH(outputs_of("  - relu: {inputs: [\"parts:99999999999999999999\"]}\n"),
                    ContainsSubstring("no earlier layer is named 'parts:99999999999999999999'"));
}

TEST_CASE("layers that get too few or too many inputs are errors at their place") {
  check_problem(
      "input: [1, 4, 4]\nlayers:\n  - relu: {name: a}\n  - add\n",
      "test.yaml:4:5: error: layers[1].add: add needs at least 2 inputs, got 1; name them with `inputs`");
  check_problem("input: [1, 4, 4]\nlayers:\n  - relu: {name: a}\n  - flatten: {inputs: [a, input]}\n",
                "test.yaml:4:15: error: layers[1].flatten.inputs: flatten takes one input, got 2");
}

TEST_CASE("shapes that do not fit are errors at the layer or its parameter") {
  check_problem(
      "input: [3, 4, 4]\nlayers:\n  - linear: 2\n",
      "test.yaml:3:5: error: layers[0].linear: expected features (N, K) or (N, T, K), got shape 2x3x4x4; "
      "put `flatten` before it");
  check_problem(
      "input: [3, 4, 4]\nlayers:\n  - conv2d: {out_channels: 4, kernel_size: 3, groups: 2}\n  - flatten\n",
      "test.yaml:3:47: error: layers[0].conv2d.groups: must divide 3 input channels and 4 output channels, "
      "got 2");
  check_problem(
      "input: [3, 4, 4]\nlayers:\n  - conv2d: {out_channels: 4, kernel_size: 7, padding: 1}\n  - flatten\n",
      "test.yaml:3:5: error: layers[0].conv2d: a 7x7 kernel does not fit into a 4x4 image with padding 1x1");
  check_problem("input: [3, 4, 4]\nlayers:\n  - max_pool2d: 5\n  - flatten\n",
                "test.yaml:3:5: error: layers[0].max_pool2d: a 5x5 window does not fit into a 4x4 image");
  check_problem("input: [3, 4, 4]\nlayers:\n  - max_pool2d: {kernel_size: 3, padding: 2}\n  - flatten\n",
                "test.yaml:3:5: error: layers[0].max_pool2d: padding 2 is more than half the window of 3");
  check_problem(
      "input: [3, 4, 4]\nlayers:\n  - reshape: [5, -1]\n",
      "test.yaml:3:5: error: layers[0].reshape.shape: [5, -1] does not hold the 48 elements of a sample of "
      "shape 3x4x4");
  check_problem(
      "input: [3, 4, 4]\nlayers:\n  - max_pool2d: {kernel_size: 2, name: p}\n  - add: {inputs: [p, input]}\n",
      "test.yaml:4:5: error: layers[1].add: the inputs must have one shape, got 2x3x2x2 and 2x3x4x4");
  check_problem(
      "input: [3, 4, 4]\nlayers:\n  - reshape: [4, 2, 2, 3]\n",
      "test.yaml:3:5: error: layers[0].reshape: expected logits (N, classes), got 2x4x2x2x3; end the "
      "network with flatten and linear");
}

TEST_CASE("squeeze_excite has torchvision's parameters and the channels that it is told") {
  auto network = [](const std::string& keys) {
    return "{input: [32, 4, 4], layers: [{squeeze_excite: {name: se" + keys + "}}, flatten, {linear: 2}]}";
  };
  auto squeezed = [&](const std::string& keys) {
    const Parameters found = parameters_of(forward_program(network_from(network(keys)), 2));
    REQUIRE(found.size() == 6);
    const int64_t channels = found[0].second[0];
    CHECK(Parameters(found.begin(), found.begin() + 4) == Parameters{{"se.fc1.weight", {channels, 32, 1, 1}},
                                                                     {"se.fc1.bias", {channels}},
                                                                     {"se.fc2.weight", {32, channels, 1, 1}},
                                                                     {"se.fc2.bias", {32}}});
    return channels;
  };
  CHECK(squeezed("") == 2);
  CHECK(squeezed(", ratio: 4") == 8);
  CHECK(squeezed(", ratio: 100") == 1);
  CHECK(squeezed(", squeeze_channels: 5") == 5);
  check_problem(network(", squeeze_channels: 5, ratio: 4"),
                "test.yaml:1:79: error: layers[0].squeeze_excite.ratio: conflicts with squeeze_channels; "
                "keep one of them");
  const Program zeros = forward_program(network_from(network(", init: zeros")), 2);
  for (const char* name : {"se.fc1.weight", "se.fc1.bias", "se.fc2.weight", "se.fc2.bias"}) {
    const Initial& initial = zeros.tensor(zeros.find(name)).initial;
    CHECK(initial.kind == Initial::Kind::fill);
    CHECK(initial.a == 0);
  }
}

TEST_CASE("layers that resize images give the shapes of PyTorch's") {
  auto shape = [](const std::string& layer) {
    const Program program =
        forward_program(network_from("{input: [3, 6, 5], layers: [" + layer + ", flatten, {linear: 2}]}"), 2);
    return to_string(program.spec(program.entries[0].nodes[0].outputs[0]).shape) + " " +
           std::string(program.entries[0].nodes[0].op->name());
  };
  CHECK(shape("{upsample: 2}") == "2x3x12x10 resample2d");
  CHECK(shape("{upsample: {scale: [1, 3], mode: bilinear, align_corners: true}}") == "2x3x6x15 resample2d");
  CHECK(shape("{adaptive_avg_pool2d: [3, 5]}") == "2x3x3x5 avg_pool2d");
  CHECK(shape("{adaptive_avg_pool2d: [4, 5]}") == "2x3x4x5 resample2d");
  CHECK(shape("{conv_transpose2d: {out_channels: 4, kernel_size: 3}}") == "2x4x8x7 conv2d_backward_data");
  CHECK(shape("{conv_transpose2d: {out_channels: 4, kernel_size: [3, 2], stride: [2, 3], padding: [1, 0], "
              "output_padding: [1, 2], dilation: [1, 2]}}") == "2x4x12x17 conv2d_backward_data");
}

TEST_CASE("a transposed convolution's weights are shaped and begin as in PyTorch") {
  const Program program = forward_program(
      network_from(
          "{input: [6, 3, 3], layers: [{conv_transpose2d: {name: up, out_channels: 4, kernel_size: 3, "
          "groups: 2}}, flatten, {linear: 2}]}"),
      2);
  const Tensor& weight = program.tensor(program.find("up.weight"));
  CHECK(weight.spec.shape == Shape{6, 2, 3, 3});
  CHECK(weight.initial.b == Approx(1 / std::sqrt(18.0)));
  CHECK(program.tensor(program.find("up.bias")).spec.shape == Shape{4});
}

TEST_CASE("stochastic depth is there in training only") {
  const Program program = forward_program(
      network_from("{input: [1, 2, 2], layers: [{stochastic_depth: 0.2}, flatten, {linear: 2}]}"), 2);
  CHECK(program.entries[0].nodes[0].op->name() == "stochastic_depth");
  CHECK(program.entries[1].nodes[0].op->name() == "reshape");
}

TEST_CASE("blocks further on are skipped more often, by the share of their number") {
  const Program program = forward_program(
      network_from("{input: [1, 2, 2], layers: [{stochastic_depth: {p: 0.2, block: 0, blocks: 4}}, "
                   "{stochastic_depth: {p: 0.2, block: 1, blocks: 4}}, flatten, {linear: 2}]}"),
      2);
  std::vector<double> skipped;
  for (const Node& node : program.entries[0].nodes) {
    if (const auto* depth = dynamic_cast<const StochasticDepth*>(node.op.get()))
      skipped.push_back(depth->settings.p);
  }
  CHECK(skipped == std::vector<double>{0.05});  // that of block 0 does not exist
}

TEST_CASE("pixels become tokens and pixels again") {
  const Program program =
      forward_program(network_from("{input: [3, 2, 5], layers: [{to_tokens: {name: tokens}}, {scale: {name: "
                                   "factors, value: 3, bare: true}}, "
                                   "{to_images: {inputs: [factors, input]}}, flatten, {linear: 2}]}"),
                      2);
  const auto& nodes = program.entries[0].nodes;
  const auto shape_of = [&](size_t node) { return program.spec(nodes[node].outputs[0]).shape; };
  CHECK(shape_of(0) == Shape{2, 10, 3});
  const Tensor& factors = program.tensors[static_cast<size_t>(program.find("factors"))];
  CHECK(factors.spec.shape == Shape{3, 1, 1});
  CHECK(factors.initial.a == 3);
  CHECK(shape_of(3) == Shape{2, 3, 2, 5});
}

TEST_CASE("factors may be stored as torchvision's layer_scale") {
  auto network = [](const std::string& keys) {
    return "input: [4, 3]\nlayers:\n  - scale: {name: layer_scale" + keys +
           "}\n  - flatten\n  - linear: {name: fc, out_features: 2}\n";
  };
  auto factors = [&](const std::string& keys) {
    return parameters_of(forward_program(network_from(network(keys)), 2)).front();
  };
  CHECK(factors("") == std::pair<std::string, Shape>{"layer_scale.weight", {3}});
  CHECK(factors(", bare: true") == std::pair<std::string, Shape>{"layer_scale", {3, 1, 1}});
  check_problem(
      network(", learned: false, bare: true"),
      "test.yaml:3:48: error: layers[0].scale.bare: is for learned factors; remove it, or set learned: true");
}

TEST_CASE("what the layers for images cannot do is an error at its key") {
  const std::string start = "input: [3, 4, 4]\nlayers:\n  - ";
  check_problem(
      start + "upsample: {scale: 2, align_corners: true}\n  - flatten\n",
      "test.yaml:3:26: error: layers[0].upsample.align_corners: requires mode: bilinear, got mode: nearest");
  check_problem(start + "flatten\n  - upsample: 2\n",
                "test.yaml:4:5: error: layers[1].upsample: expected images (N, C, H, W), got shape 2x48");
  check_problem(
      start + "conv_transpose2d: {out_channels: 4, kernel_size: 3, stride: 2, output_padding: 2}\n",
      "test.yaml:3:68: error: layers[0].conv_transpose2d.output_padding: must be less than stride 2, "
      "got 2");
  check_problem(
      start + "conv_transpose2d: {out_channels: 4, kernel_size: 1, padding: 2}\n",
      "test.yaml:3:57: error: layers[0].conv_transpose2d.padding: 2x2 leaves nothing of a 4x4 output");
  check_problem(
      start + "conv_transpose2d: {out_channels: 4, kernel_size: 1, groups: 3}\n",
      "test.yaml:3:57: error: layers[0].conv_transpose2d.groups: must divide 3 input channels and 4 "
      "output channels, got 3");
}

TEST_CASE(
    "a sample may have any number of dimensions, and a layer that does not take them says so at its place") {
  CHECK(parameters_of(forward_program(network_from("{input: [12], layers: [relu, linear: 5]}"), 4)) ==
        Parameters{{"1.weight", {5, 12}}, {"1.bias", {5}}});
  CHECK(parameters_of(forward_program(network_from("{input: [2, 3, 4, 5], layers: [flatten, linear: 7]}"),
                                      4)) == Parameters{{"1.weight", {7, 120}}, {"1.bias", {7}}});
  for (const char* input : {"[12]", "[6, 4]", "[2, 3, 4, 5]"}) {
    for (const char* layer :
         {"conv2d: {out_channels: 2, kernel_size: 1}", "conv_transpose2d: {out_channels: 2, kernel_size: 2}",
          "max_pool2d: {kernel_size: 2}", "avg_pool2d: {kernel_size: 2}", "global_avg_pool2d",
          "adaptive_avg_pool2d: 2", "upsample: 2", "squeeze_excite: {squeeze_channels: 2}"}) {
      const std::string text =
          "{input: " + std::string(input) + ", layers: [" + std::string(layer) + ", flatten, linear: 4]}";
      INFO(text);
      const std::string found = problem(text);
      CHECK(found.find("test.yaml:1:") == 0);
      CHECK(found.find("layers[0]") != std::string::npos);
      CHECK(found.find("(N, C, H, W)") != std::string::npos);
    }
    for (const char* layer :
         {"batch_norm", "dropout", "stochastic_depth: 0.1", "relu", "flatten", "reshape: [24]"}) {
      const std::string text =
          "{input: " + std::string(input) + ", layers: [" + std::string(layer) + ", flatten, linear: 4]}";
      INFO(text);
      const std::string found = problem(text);
      CHECK((found == "fine" || found.find("layers[0]") != std::string::npos));
    }
  }
}

TEST_CASE(
    "a linear layer uses the weight of an earlier one, and stores its own transposed where it is told to") {
  const std::string text = R"(
input: [8]
layers:
  - linear: {name: a, out_features: 3}
  - linear: {name: b, out_features: 8, weight_of: a, transposed: true, bias: false}
  - linear: {name: c, out_features: 5, transposed: true}
)";
  const Program program = forward_program(network_from(text), 4);
  CHECK(parameters_of(program) ==
        Parameters{{"a.weight", {3, 8}}, {"a.bias", {3}}, {"c.weight", {8, 5}}, {"c.bias", {5}}});
  const std::vector<Node>& nodes = program.entries[0].nodes;
  CHECK(nodes[0].inputs[1] == nodes[1].inputs[1]);
  check_problem(
      "input: [8]\nlayers:\n  - linear: {name: a, out_features: 8}\n"
      "  - linear: {out_features: 8, weight_of: a, init: zeros}\n",
      "test.yaml:4:45: error: layers[1].linear.init: the weight is that of 'a'; remove it");
  check_problem(
      "input: [8]\nlayers:\n  - relu: {name: a}\n"
      "  - linear: {out_features: 8, weight_of: a}\n",
      "test.yaml:4:31: error: layers[1].linear.weight_of: layer 'a' has no weight");
}
