// SPDX-License-Identifier: Apache-2.0
#include "core/optim/optimizer.h"

#include "tests/catch.h"

#include "core/graph/operation.h"
#include "core/graph/ops/optimizer_steps.h"
#include "cpu/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

/// The weight decay of each parameter's update, by name.
std::map<std::string, double> decays(const std::string& optimizer) {
  Program program;
  program.entries.emplace_back(entry_name::kUpdate);
  Entry& entry = program.entries[0];
  auto add = [&](const std::string& name, const Shape& shape) {
    const TensorId parameter = program.persistent(name, {shape, DType::f32}, Role::parameter, {});
    const TensorId gradient =
        program.persistent(name + ".gradient", {shape, DType::f32}, Role::gradient_sum, {});
    entry.gradients.push_back({parameter, gradient});
  };
  add("fc.weight", {4, 3});
  add("fc.bias", {4});
  add("norm.weight", {4});
  add("norm.bias", {4});
  append_update(*optimizer_from(optimizer), program, entry, {0.1f, 0.2f});
  verify(program);
  CHECK(entry.gradients.empty());
  std::map<std::string, double> found;
  for (const Node& node : entry.nodes) {
    const auto* step = dynamic_cast<const OptimizerStep*>(node.op.get());
    for (size_t p = 0; step != nullptr && p < step->parameters(); ++p) {
      found[program.tensor(node.inputs[step->input_of(p)]).name] = step->settings[p].weight_decay;
    }
  }
  return found;
}

using Decays = std::map<std::string, double>;

}  // namespace

TEST_CASE("weight decay spares the kinds of parameters in no_decay") {
  for (const std::string name : {"sgd", "adam", "adamw"}) {
    const std::string start = "{name: " + name + ", weight_decay: 0.5";
    CHECK(decays(start + "}") ==
          Decays{{"fc.weight", 0.5}, {"fc.bias", 0.5}, {"norm.weight", 0.5}, {"norm.bias", 0.5}});
    CHECK(decays(start + ", no_decay: [bias]}") ==
          Decays{{"fc.weight", 0.5}, {"fc.bias", 0}, {"norm.weight", 0.5}, {"norm.bias", 0}});
    CHECK(decays(start + ", no_decay: [norm]}") ==
          Decays{{"fc.weight", 0.5}, {"fc.bias", 0.5}, {"norm.weight", 0}, {"norm.bias", 0.5}});
    CHECK(decays(start + ", no_decay: [bias, norm]}") ==
          Decays{{"fc.weight", 0.5}, {"fc.bias", 0}, {"norm.weight", 0}, {"norm.bias", 0}});
  }
}

TEST_CASE("optimisers keep the moments they need, and no others") {
  auto moments = [](const std::string& optimizer) {
    const Network network = network_from(
        "{input: [1, 2, 2], layers: [flatten, {linear: {out_features: 2, name: fc, bias: false}}]}");
    const Program program = training_program(network, 2, *optimizer_from(optimizer), {0.1f}, {});
    std::vector<std::string> names;
    for (const Tensor& tensor : program.tensors) {
      if (tensor.role == Role::optimizer) names.push_back(tensor.name);
    }
    return names;
  };
  CHECK(moments("sgd").empty());
  CHECK(moments("{name: sgd, momentum: 0.9}") == std::vector<std::string>{"fc.weight.momentum"});
  CHECK(moments("rmsprop") == std::vector<std::string>{"fc.weight.square_avg"});
  CHECK(moments("{name: rmsprop, momentum: 0.9, centered: true}") ==
        std::vector<std::string>{"fc.weight.square_avg", "fc.weight.momentum", "fc.weight.grad_avg"});
  CHECK(moments("lars") == std::vector<std::string>{"fc.weight.momentum"});
  CHECK(moments("adamw") == std::vector<std::string>{"fc.weight.exp_avg", "fc.weight.exp_avg_sq"});
}

TEST_CASE("a factor that is a state multiplies the rates of all updates, and is put out with them") {
  Program program = forward_program(
      network_from("{input: [1, 2, 2], layers: [flatten, {linear: {out_features: 2, name: fc}}]}"), 2);
  run_passes(program, {autodiff()});
  append_update(*optimizer_from("sgd"), program, program.entry(entry_name::kTrainStep), {0.5f, 0.25f}, {},
                true);
  run_passes(program, {dead_code()});
  const auto cpu = make_cpu_backend(1);
  Session session(program, cpu);
  session.set({{"images", {1, 2, 3, 4, 5, 6, 7, 8}}, {"labels", {0, 1}}, {"weights", {0.5f, 0.5f}}});
  const auto step_of = [&](float factor) {
    session.set({{state_name::kLearningRateFactor, {factor}},
                 {"fc.bias", {0, 0}},
                 {"fc.weight", std::vector<float>(8, 0.0f)}});
    session.run(entry_name::kTrainStep);
    return session.persistent("fc.weight");
  };
  CHECK(session.persistent(state_name::kLearningRateFactor) == std::vector<double>{1});
  const std::vector<double> whole = step_of(1), half_of_half = step_of(0.5f), still = step_of(0);
  CHECK(session.output(entry_name::kTrainStep, "lr") == std::vector<double>{0});
  for (size_t i = 0; i < whole.size(); ++i) {
    CHECK(whole[i] != 0);
    CHECK(half_of_half[i] == whole[i] / 4);
    CHECK(still[i] == 0);
  }
}

TEST_CASE("the text of an update says what it does") {
  const Network network = network_from(
      "{input: [1, 2, 2], layers: [flatten, {linear: {out_features: 2, name: fc, bias: false}}]}");
  const Program program = training_program(
      network, 2,
      *optimizer_from("{name: sgd, momentum: 0.9, nesterov: true, weight_decay: 0.1, clip_norm: 2}"), {0.1f},
      {});
  const std::string text = to_text(program);
  CHECK(text.find("table_lookup(@lr_table, @counter.updates)") != std::string::npos);
  CHECK(text.find("{max_norm=2}") != std::string::npos);
  CHECK(text.find("{momentum=0.9 nesterov weight_decay=0.1 parameters=1}") != std::string::npos);
  CHECK(text.find("output grad_norm") != std::string::npos);
  CHECK(text.find("increment(@counter.step, -)") != std::string::npos);
}

TEST_CASE("lars leaves biases and norms to plain SGD, unless it is told otherwise") {
  auto updates = [](const std::string& text) {
    const Network network = network_from(
        "{input: [1, 3, 3], layers: [{conv2d: {out_channels: 2, kernel_size: 1, name: c}}, {batch_norm: "
        "{name: n}}, "
        "flatten, {linear: 2}]}");
    const Program program = training_program(network, 2, *optimizer_from(text), {0.1f}, {});
    std::map<std::string, bool> adapts;
    for (const Node& node : program.entries[0].nodes) {
      const auto* lars = dynamic_cast<const OptimizerStep*>(node.op.get());
      for (size_t p = 0; lars != nullptr && p < lars->parameters(); ++p) {
        adapts[program.tensor(node.inputs[lars->input_of(p)]).name] = lars->settings[p].adapts;
      }
    }
    return adapts;
  };
  using Adapts = std::map<std::string, bool>;
  CHECK(updates("lars") == Adapts{{"c.weight", true},
                                  {"c.bias", false},
                                  {"n.weight", false},
                                  {"n.bias", false},
                                  {"3.weight", true},
                                  {"3.bias", false}});
  CHECK(updates("{name: lars, no_decay: [bias]}")["n.weight"]);
}
