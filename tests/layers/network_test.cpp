// SPDX-License-Identifier: Apache-2.0
#include "core/layers/network.h"

#include <catch2/catch.hpp>

#include "core/graph/operation.h"
#include "tests/reference/networks.h"

using namespace trainer;

namespace {

using Parameters = std::vector<std::pair<std::string, Shape>>;

Parameters parameters_of(const Program& program) {
  Parameters found;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::parameter) found.emplace_back(tensor.name, tensor.spec.shape);
  }
  return found;
}

/// The message of whatever reading, checking or building the network throws.
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
                "test.yaml:3:15: error: layers[0].flatten.name: 'input' is what an unnamed layer or the "
                "input is called");
  check_problem(
      "input: [1, 4, 4]\nlayers:\n  - flatten: {name: 3}\n",
      "test.yaml:3:15: error: layers[0].flatten.name: '3' is what an unnamed layer or the input is called");
}

TEST_CASE("layers that get too few or too many inputs are errors at their place") {
  check_problem(
      "input: [1, 4, 4]\nlayers:\n  - relu: {name: a}\n  - add\n",
      "test.yaml:4:5: error: layers[1].add: add joins at least 2 inputs, got 1; name them with `inputs`");
  check_problem("input: [1, 4, 4]\nlayers:\n  - relu: {name: a}\n  - flatten: {inputs: [a, input]}\n",
                "test.yaml:4:15: error: layers[1].flatten.inputs: flatten takes one input, got 2");
}

TEST_CASE("shapes that do not fit are errors at the layer or its parameter") {
  check_problem(
      "input: [3, 4, 4]\nlayers:\n  - linear: 2\n",
      "test.yaml:3:5: error: layers[0].linear: expected features (N, K), got shape 2x3x4x4; put `flatten` "
      "before it");
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
  check_problem("input: [3, 4, 4]\nlayers:\n  - conv2d: {out_channels: 4, kernel_size: 1}\n",
                "test.yaml:3:5: error: layers[0].conv2d: expected logits (N, classes), got 2x4x4x4; end the "
                "network with flatten and linear");
}
