// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/graph/operation.h"
#include "cpu/backend.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr int64_t kFrozenBatch = 5;
const char* const kFrozenNetwork = R"(
input: [2, 7, 7]
layers:
  - conv2d: {out_channels: 17, kernel_size: 3, name: conv1}
  - batch_norm: {name: norm1}
  - relu
  - conv2d: {out_channels: 9, kernel_size: 3, name: conv2}
  - batch_norm: {name: norm2}
  - relu
  - flatten
  - linear: {out_features: 3, name: fc}
)";

void set_batch(Session& session, uint64_t number) {
  RandomStream random(random_key(number, "batch"));
  std::vector<float> images(static_cast<size_t>(kFrozenBatch * 2 * 7 * 7)), labels;
  for (float& value : images) value = 2 * random.next_uniform() - 1;
  for (int64_t n = 0; n < kFrozenBatch; ++n) labels.push_back(static_cast<float>(random.next_below(3)));
  session.set({{input_name::kImages, images},
               {input_name::kLabels, labels},
               {input_name::kSampleIndex, std::vector<float>(static_cast<size_t>(kFrozenBatch), 0)},
               {input_name::kWeights, std::vector<float>(static_cast<size_t>(kFrozenBatch), 0.2f)}});
}

Program program_with(const std::string& freeze, const std::vector<Pass>& passes = {fuse_relu()},
                     const std::string& optimizer = "{name: adam, lr: 0.01, weight_decay: 0.1}") {
  return training_program(network_from(kFrozenNetwork + ("freeze: " + freeze + "\n")), kFrozenBatch,
                          *optimizer_from(optimizer), std::vector<float>(8, 0.01f), passes);
}

using Values = std::map<std::string, std::vector<double>>;

/// The tensors of a network, after some steps.
Values trained(const Program& program, const Backend& backend, uint64_t steps) {
  Session session(program, backend);
  for (uint64_t step = 0; step < steps; ++step) {
    set_batch(session, step);
    session.run(entry_name::kTrainStep);
  }
  Values values;
  for (const Tensor& tensor : program.tensors) {
    const bool is_weight =
        tensor.role == Role::parameter || tensor.name.find(".running_") != std::string::npos;
    if (is_weight) values[tensor.name] = session.persistent(tensor.name);
  }
  return values;
}

bool has_tensor(const Program& program, const std::string& name) {
  return program.find(name) != kNone;
}

int64_t count(const Program& program, std::string_view operation) {
  const std::vector<Node>& nodes = program.find_entry(entry_name::kTrainStep)->nodes;
  return std::count_if(nodes.begin(), nodes.end(),
                       [&](const Node& node) { return node.op->name() == operation; });
}

}  // namespace

TEST_CASE("frozen parameters stay, statistics that are not move on, and the rest trains to the same bits") {
  const std::vector<std::string> frozen = {"conv1.weight", "conv1.bias", "norm1.weight", "norm1.bias"};
  const Program some = program_with("[\"conv1.*\", norm1.weight, norm1.bias]"), all = program_with("[]");
  const Backend reference = make_reference_backend();
  const auto cpu = make_cpu_backend(2);
  for (const Backend* backend : {&reference, &cpu}) {
    INFO(backend->planner->name());
    const Values first = trained(some, *backend, 0), step = trained(some, *backend, 1),
                 whole = trained(all, *backend, 1), later = trained(some, *backend, 4);
    for (const auto& [name, values] : step) {
      INFO(name);
      if (std::find(frozen.begin(), frozen.end(), name) != frozen.end()) {
        CHECK(values == first.at(name));
        CHECK(later.at(name) == first.at(name));
        CHECK(whole.at(name) != first.at(name));
      } else {
        CHECK(values == whole.at(name));  // one step from the same weights
        CHECK(values != first.at(name));
        CHECK(later.at(name) != values);
      }
    }
  }
}

TEST_CASE("what is frozen has no moments, no averages and no part in the gradients' norm") {
  const Program some = program_with("[\"conv?.*\", \"norm?.*\"]"), all = program_with("[]");
  for (const char* name : {"conv1.weight", "conv1.bias", "norm2.weight", "conv2.weight"}) {
    INFO(name);
    for (const char* moment : {".exp_avg", ".exp_avg_sq"}) {
      CHECK(has_tensor(all, name + std::string(moment)));
      CHECK_FALSE(has_tensor(some, name + std::string(moment)));
    }
  }
  CHECK(has_tensor(some, "fc.weight.exp_avg"));
  Program averaged = some;
  run_passes(averaged, {average_weights(0.9), dead_code()});
  CHECK(has_tensor(averaged, "fc.weight.ema"));
  CHECK_FALSE(has_tensor(averaged, "conv1.weight.ema"));
  CHECK_FALSE(has_tensor(averaged, "norm1.running_mean.ema"));
  CHECK(count(some, "conv2d_backward_weights") + count(some, "conv2d_backward_data") == 0);
  CHECK(count(some, "linear_backward_data") == 0);
  CHECK(count(all, "conv2d_backward_weights") == 2);
}

TEST_CASE("frozen statistics stay and normalise in training too, folded where nothing passes back") {
  const auto cpu = make_cpu_backend(2);
  const std::vector<Pass> folding = {fuse_residual(), fold_batch_norm(), fuse_relu()};
  const Program prefix = program_with("[\"conv1.*\", \"norm1.*\"]", folding);
  CHECK(count(prefix, "fold_batch_norm") == 1);
  CHECK(count(prefix, "batch_norm") == 1);
  const Program statistics = program_with("[\"*.running_*\"]", folding);
  CHECK(count(statistics, "fold_batch_norm") == 0);
  CHECK(count(statistics, "batch_norm") == 0);
  for (const Program* program : {&prefix, &statistics}) {
    const Values first = trained(*program, cpu, 0), later = trained(*program, cpu, 3);
    CHECK(first.at("norm1.running_mean") == later.at("norm1.running_mean"));
    CHECK(first.at("norm1.running_var") == later.at("norm1.running_var"));
    CHECK((first.at("norm2.running_mean") == later.at("norm2.running_mean")) == (program == &statistics));
    CHECK((first.at("norm1.weight") == later.at("norm1.weight")) == (program == &prefix));
    CHECK(first.at("norm2.bias") != later.at("norm2.bias"));
  }
  // With all statistics given, training and evaluation compute the same function.
  Session session(statistics, cpu);
  set_batch(session, 1);
  session.run(entry_name::kEvaluate);
  const double evaluated = session.output(entry_name::kEvaluate, output_name::kLoss)[0];
  session.run(entry_name::kTrainStep);
  CHECK(session.output(entry_name::kTrainStep, output_name::kLoss)[0] == Approx(evaluated).epsilon(1e-6));
}

TEST_CASE("half of a layer's statistics cannot be frozen") {
  CHECK_THROWS_WITH(program_with("[norm1.running_var]"),
                    Catch::Matchers::ContainsSubstring("names norm1.running_var without norm1.running_mean"));
}
