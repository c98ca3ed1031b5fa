// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include <utility>

#include "tests/config/sample.h"

namespace trainer {

namespace {

struct Net {
  std::vector<std::unique_ptr<Sample::Layer>> layers;
  std::unique_ptr<Sample::Optimizer> optimizer;
  std::string problems;
  Fields fields;

  /// Reads `layers` or `optimizer`; `by_default` is the optimiser that applies without a setting in the
  /// recipe.
  explicit Net(const std::string& text, std::unique_ptr<Sample::Optimizer> by_default = nullptr)
      : optimizer(std::move(by_default)) {
    Diagnostics diagnostics;
    fields.components("layers", layers, Sample::layers(), "");
    fields.component("optimizer", optimizer, Sample::optimizers(), "");
    fields.read(parse_yaml(text, "r", diagnostics), "net", diagnostics);
    for (const std::string& problem : diagnostics.problems()) problems += problem + "\n";
  }
};

std::unique_ptr<Sample::Optimizer> quick_sgd() {
  auto sgd = std::make_unique<Sample::Sgd>();
  sgd->lr = 7;
  return sgd;
}

}  // namespace

TEST_CASE("each form of a list's item") {
  const Net net(
      "layers:\n- relu\n- relu:\n- dropout: 0.2\n- dropout: {p: 0.3}\n- conv2d:\n    out_channels: 4\n");
  REQUIRE(net.problems == "");
  REQUIRE(net.layers.size() == 5);
  CHECK(dynamic_cast<Sample::Relu*>(net.layers[1].get()) != nullptr);
  CHECK(dynamic_cast<Sample::Dropout&>(*net.layers[2]).p == 0.2);
  CHECK(dynamic_cast<Sample::Dropout&>(*net.layers[3]).p == 0.3);
  const Component& conv = *net.layers[4];
  CHECK(conv.chosen_as == "conv2d");
  CHECK(conv.origin.path == "net.layers[4].conv2d");
  CHECK(to_string(conv.origin.where) == "r:6:3");
  CHECK(to_string(conv.origin_of("out_channels").where) == "r:7:5");
  CHECK(conv.origin_of("out_channels").path == "net.layers[4].conv2d.out_channels");
  CHECK(to_string(conv.origin_of("kernel").where) == "r:6:3");
  CHECK(to_string(net.layers[2]->origin_of("p").where) == "r:4:3");
}

TEST_CASE("each wrong form of a list's item") {
  CHECK(Net("layers: relu").problems ==
        "r:1:1: error: net.layers: expected a list such as [relu], found 'relu'\n");
  CHECK(Net("layers:").problems ==
        "r:1:1: error: net.layers: expected a list such as [relu], found nothing\n");
  CHECK(Net("layers: [[relu]]").problems ==
        "r:1:10: error: net.layers[0]: expected a name, or `name: {parameters}`, found a list\n");
  CHECK(Net("layers: [{}]").problems ==
        "r:1:10: error: net.layers[0]: expected a name, or `name: {parameters}`, found an empty map\n");
  CHECK(Net("layers: [{relu: 3}]").problems ==
        "r:1:11: error: net.layers[0].relu: expected a map of parameters, found '3'\n");
  CHECK(Net("layers: [{dropout: [1]}]").problems ==
        "r:1:11: error: net.layers[0].dropout: expected a number, found a list\n");
  CHECK(Net("layers: [{dropout: 2}]").problems ==
        "r:1:11: error: net.layers[0].dropout: must be at least 0 and below 1, got 2\n");
  CHECK(Net("layers: [{cnv2d: {wrong: 1}}, zzz]").problems ==
        "r:1:11: error: net.layers[0].cnv2d: unknown name 'cnv2d'; did you mean 'conv2d'?\n"
        "r:1:31: error: net.layers[1].zzz: unknown name 'zzz'; known: relu, conv2d, dropout\n");
}

TEST_CASE("a component by name, with and without parameters") {
  const Net named("optimizer: {lr: 3, name: adam, betas: [0.5]}");
  REQUIRE(named.problems == "");
  CHECK(dynamic_cast<Sample::Adam&>(*named.optimizer).betas == std::vector<double>{0.5});
  CHECK(named.optimizer->origin.path == "net.optimizer");
  CHECK(to_string(named.optimizer->origin_of("lr").where) == "r:1:13");

  CHECK(Net("optimizer: adam").optimizer->chosen_as == "adam");
  CHECK(Net("{}").optimizer == nullptr);
  CHECK(Net("optimizer:").optimizer == nullptr);
  CHECK(Net("optimizer: adam", quick_sgd()).optimizer->lr == 0.1);
}

TEST_CASE("parameters without a name belong to the default") {
  const Net changed("optimizer: {momentum: 0.5}", quick_sgd());
  REQUIRE(changed.problems == "");
  CHECK(changed.optimizer->lr == 7);
  CHECK(dynamic_cast<Sample::Sgd&>(*changed.optimizer).momentum == 0.5);

  const Net untouched("{}", quick_sgd());
  CHECK(untouched.optimizer->lr == 7);
  CHECK(untouched.optimizer->chosen_as == "sgd");
  CHECK(to_string(untouched.optimizer->origin.where) == "default");

  CHECK(Net("optimizer: {momentun: 0.5}", quick_sgd()).problems ==
        "r:1:13: error: net.optimizer: unknown key 'momentun'; did you mean 'momentum'?\n");
  CHECK(Net("optimizer: {nam: adam, betas: [1]}", quick_sgd()).problems ==
        "r:1:13: error: net.optimizer: unknown key 'nam'; did you mean 'name'?\n");
  CHECK(Net("optimizer: {betas: [0.5]}", quick_sgd()).problems ==
        "r:1:12: error: net.optimizer: missing key 'name', expected one of: sgd, adam\n");
}

TEST_CASE("a wrong name of a component is one error") {
  CHECK(Net("optimizer: sdg").problems ==
        "r:1:1: error: net.optimizer: unknown name 'sdg'; did you mean 'sgd'?\n");
  CHECK(Net("optimizer: {name: lion, beta: 3}").problems ==
        "r:1:13: error: net.optimizer.name: unknown name 'lion'; known: sgd, adam\n");
  CHECK(Net("optimizer: {name: [sgd], beta: 3}").problems ==
        "r:1:13: error: net.optimizer.name: expected one of: sgd, adam; found a list\n");
  CHECK(Net("optimizer: [sgd]").problems ==
        "r:1:1: error: net.optimizer: expected a name, or a map with 'name' and parameters, found a list\n");
  CHECK(Net("optimizer:", quick_sgd()).problems.empty());  // the default remains, as for an empty section
  CHECK(Net("optimizer: {lr: 1}").problems ==
        "r:1:12: error: net.optimizer: missing key 'name', expected one of: sgd, adam\n");
}

TEST_CASE("a default finds its own name, or is refused") {
  struct Stranger : Sample::Optimizer {
    void declare(Fields&) override {}
  };
  CHECK_THROWS_AS(Net("{}", std::make_unique<Stranger>()), std::logic_error);
  auto named = std::make_unique<Stranger>();
  named->chosen_as = "adam";
  CHECK(to_yaml(Net("{}", std::move(named)).fields.resolved(), false) ==
        "layers: []\noptimizer:\n  name: adam\n");
}

}  // namespace trainer
