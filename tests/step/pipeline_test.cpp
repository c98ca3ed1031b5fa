// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/graph/operation.h"
#include "core/graph/ops/exchange.h"
#include "core/step/stages.h"
#include "core/step/stages_of_nodes.h"
#include "core/step/step.h"
#include "core/step/update.h"
#include "tests/catch.h"
#include "tests/reference/networks.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

/// The last layer has half of all operations, and a shortcut goes around the layers between.
constexpr const char* kUneven =
    "{input: [1, 2, 4], layers: [{flatten: {name: in}}, {linear: {name: a, out_features: 8}}, "
    "{linear: {name: b, out_features: 8}}, {linear: {name: c, out_features: 8}}, "
    "{add: {name: sum, inputs: [a, c]}}, {linear: {name: head, out_features: 24}}]}";

PipelineSpec spec_of(int64_t ranks, std::vector<std::string> cuts = {}, int64_t chunks = 1) {
  return {.schedule = {.ranks = ranks, .chunks = chunks, .micro_batches = 2}, .cuts = std::move(cuts)};
}

Program program_of(const Network& network) {
  return forward_program(network, 2);
}

std::vector<int64_t> stages(const std::string& text, const PipelineSpec& spec) {
  const Network network = network_from(text);
  return stages_of_layers(network, program_of(network), spec);
}

std::string problem_of(const PipelineSpec& spec) {
  try {
    stages(kUneven, spec);
  } catch (const Error& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_CASE("stages are balanced by FLOPs, at the border that sends least") {
  CHECK(stages(kUneven, spec_of(2)) == std::vector<int64_t>{0, 0, 0, 0, 0, 1});
  const std::vector<int64_t> named = stages(kUneven, spec_of(3, {"b", "sum"}));
  CHECK(named == std::vector<int64_t>{0, 0, 1, 1, 2, 2});
}

TEST_CASE("cuts that cannot be are refused with what to write") {
  CHECK_THAT(problem_of(spec_of(2, {"d"})), ContainsSubstring("no layer is named 'd'"));
  CHECK_THAT(problem_of(spec_of(2, {"in"})), ContainsSubstring("is the first layer"));
  CHECK_THAT(problem_of(spec_of(3, {"c", "b"})), ContainsSubstring("'b' does not come after 'c'"));
  CHECK_THAT(problem_of(spec_of(3, {"c", "c"})), ContainsSubstring("'c' does not come after 'c'"));
  CHECK_THAT(problem_of(spec_of(3, {"c"})), ContainsSubstring("names 1, but 3 stages need 2"));
  CHECK_THAT(problem_of(spec_of(7)),
             ContainsSubstring("7 stages need as many layers, and the network has 6"));
  CHECK_THAT(problem_of(spec_of(2, {}, 4)), ContainsSubstring("write at most 3"));
  CHECK(problem_of(spec_of(3, {"b", "sum"})).empty());
}

TEST_CASE("each node is of one stage, and each tensor between stages is sent once in each direction") {
  const Network network = network_from(kUneven);
  const PipelineSpec spec = spec_of(3, {"b", "sum"});
  std::set<std::string> parameters;
  for (int64_t position = 0; position < 3; ++position) {
    Program program = program_of(network);
    run_passes(program,
               {cut_stages(network, spec), autodiff(), own_stage(spec.schedule, {.stages = 3}, position)});
    const Entry& step = program.entry(entry_name::kTrainStep);
    // a -> b and a -> sum, c -> sum, and their gradients.
    const std::vector<Route> expected = {{0, 1, false}, {0, 2, false}, {1, 2, false},
                                         {2, 1, true},  {2, 0, true},  {1, 0, true}};
    std::vector<Route> routes = step.routes;
    const auto key = [](const Route& route) { return std::tuple(route.is_backward, route.from, route.to); };
    std::vector<Route> sorted = expected;
    std::ranges::sort(routes, {}, key);
    std::ranges::sort(sorted, {}, key);
    CHECK(routes == sorted);
    for (const auto& found : stages_of_nodes(step, spec.schedule)) CHECK(found == std::set{position});
    for (const Tensor& tensor : program.tensors) {
      if (tensor.role == Role::parameter) CHECK(parameters.insert(tensor.name).second);
    }
    CHECK((program.find(input_name::kImages) != kNone) == (position == 0));
    CHECK((program.find(input_name::kLabels) != kNone) == (position == 2));
  }
  CHECK(parameters.size() == 8);
}

TEST_CASE("every stage knows that the loss is scaled, and the parameters of the whole network in order") {
  const Network network = network_from(kUneven);
  const PipelineSpec spec = spec_of(3, {"b", "sum"});
  for (int64_t position = 0; position < 3; ++position) {
    Program program = program_of(network);
    run_passes(program, {cut_stages(network, spec), autodiff(true),
                         own_stage(spec.schedule, {.stages = 3}, position)});
    CHECK(scales_loss(program));
    CHECK(program.whole->parameters == std::vector<std::string>{"a.weight", "a.bias", "b.weight", "b.bias",
                                                                "c.weight", "c.bias", "head.weight",
                                                                "head.bias"});
    CHECK(program.whole->tables_and_last_layers == std::set<std::string>{"head.weight"});
  }
}

TEST_CASE("nothing is in flight where the update begins, since the search for a NaN leaves a step there") {
  const Network network = network_from(kUneven);
  const auto rule = optimizer_from("{name: adamw, lr: 0.01, clip_norm: 0.5}");
  for (int64_t position = 0; position < 3; ++position) {
    Program program = program_of(network);
    const StepSpec spec{.forward = {.network = &network},
                        .micro_batches = 4,
                        .mesh = {.stages = 3},
                        .rank = position,
                        .pipeline = {.schedule = {.ranks = 3, .micro_batches = 4}, .cuts = {"b", "sum"}},
                        .update = {.optimizer = rule.get(),
                                   .learning_rates = std::vector<float>(3, 0.1f),
                                   .guards = {.loss = true, .counts = true}}};
    run_passes(program, rest_of_step(spec));
    std::set<int64_t> in_flight;
    size_t started = 0;
    for (const Node& node : program.entry(entry_name::kTrainStep).nodes) {
      if (const auto* start = dynamic_cast<const CollectiveStart*>(node.op.get()))
        started += in_flight.insert(start->number).second ? 1 : 0;
      if (const auto* done = dynamic_cast<const CollectiveDone*>(node.op.get()))
        in_flight.erase(done->number);
      if (node.phase == Phase::update) break;  // this node has still run
    }
    CHECK(started > 4);
    CHECK(in_flight.empty());
  }
}

}  // namespace trainer
