// SPDX-License-Identifier: Apache-2.0
#include "core/train/non_finite.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/engine/input_feed.h"
#include "core/step/guard.h"
#include "cpu/backend.h"
#include "tests/engine/late_backend.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr int64_t kRows = 4;
const char* const kNetwork = R"(input: [1, 6, 6]
layers:
  - conv2d: {out_channels: 5, kernel_size: 3, name: conv}
  - batch_norm: {name: norm}
  - tanh
  - flatten
  - linear: {out_features: 7, name: fc1}
  - tanh
  - linear: {out_features: 3, name: fc2}
)";

Program program_of(int64_t micro_batches) {
  const StepGuards guards{.loss = true, .counts = true, .skip_steps = {}};
  Program program = forward_program(network_from(kNetwork), kRows);
  run_passes(program, {fuse_relu(), autodiff(), accumulate(micro_batches), sum_losses()});
  append_update(*optimizer_from("{name: sgd, momentum: 0.9}"), program,
                program.entry(updating_entry(program)), {0.1f}, guards);
  run_passes(program, {guard_statistics(), dead_code()});
  return program;
}

using Values = std::map<std::string, std::vector<float>>;

Values batch(uint64_t number) {
  RandomStream random(random_key(number, "batch"));
  Values values{{input_name::kSampleIndex, {0, 1, 2, 3}},
                {input_name::kWeights, std::vector<float>(kRows, 0.25f)}};
  for (int64_t i = 0; i < kRows * 36; ++i) values[input_name::kImages].push_back(random.next_uniform());
  for (int64_t i = 0; i < kRows; ++i)
    values[input_name::kLabels].push_back(static_cast<float>(random.next_below(3)));
  return values;
}

/// The report about a step with these micro-batches, after some change of the parameters; it must leave
/// everything unchanged.
std::string search(const Backend& backend, const std::vector<Values>& batches,
                   const Values& parameters = {}) {
  Session session(program_of(static_cast<int64_t>(batches.size())), backend);
  session.set(parameters);
  Executable& executable = session.executable();
  auto states = [&] {
    std::map<std::string, std::vector<double>> all;
    const std::vector<Tensor>& tensors = executable.plan().tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!is_persistent(tensors[i].role) || tensors[i].role == Role::gradient_sum) continue;
      for (double value : executable.read<double>(static_cast<TensorId>(i)))
        all[tensors[i].name].push_back(std::isnan(value) ? -12345 : value);
    }
    return all;
  };
  const auto before = states();
  size_t bound = 0;
  const std::string text = find_non_finite(executable, static_cast<int64_t>(batches.size()), [&] {
                             session.set(batches.at(bound++));
                           }).value_or("nothing");
  CHECK(states() == before);
  return text;
}

void with_backends(const std::function<void(const Backend&)>& check) {
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  LateBackend late(cpu, true);
  for (const Backend* backend : {&cpu, &reference, static_cast<const Backend*>(&late)}) {
    INFO(backend->planner->name() << (backend->planner->is_async() ? ", later" : ""));
    check(*backend);
  }
}

}  // namespace

TEST_CASE("the first value that is not finite is named: an input and its row") {
  with_backends([](const Backend& backend) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      Values planted = batch(1);
      planted[input_name::kImages][2 * 36 + 7] = bad;
      CHECK(search(backend, {planted}) == "the input images, in row 3 of the batch");
      CHECK(search(backend, {batch(2), planted, batch(3)}) ==
            "the input images, in row 3 of the batch, micro-batch 2 of 3");
    }
  });
}

TEST_CASE("the first value that is not finite is named: an operation with its place in the recipe") {
  with_backends([](const Backend& backend) {
    // Finite weights with products that are not.
    const Values huge{{"fc1.weight", std::vector<float>(7 * 5 * 4 * 4, 3e38f)}};
    if (backend.planner->name() != "reference") {
      CHECK(search(backend, {batch(1)}, huge) == "the output of layers[4].linear (test.yaml:7:5), linear");
      CHECK(search(backend, {batch(1), batch(2)}, huge) ==
            "the output of layers[4].linear (test.yaml:7:5), linear, micro-batch 1 of 2");
    }
    std::vector<float> bias(5, 0.0f);
    bias[3] = std::numeric_limits<float>::infinity();
    CHECK(search(backend, {batch(1)}, {{"conv.bias", bias}}) == "conv.bias itself");
  });
}

TEST_CASE("the first value that is not finite is named: a gradient") {
  with_backends([](const Backend& backend) {
    if (backend.planner->name() == "reference") return;  // its numbers have a larger range
    // All classes are equally likely; the loss is finite, its gradient times the weights is not.
    Values heavy = batch(1);
    heavy[input_name::kWeights] = {1e37f, 0, 0, 0};
    CHECK(search(backend, {heavy}, {{"fc2.weight", std::vector<float>(3 * 7, 1e4f)}}) ==
          "the gradient of layers[6].linear (test.yaml:9:5), in linear_backward_data");
  });
}

TEST_CASE("the first value that is not finite is named: one of many weights that are cast at once") {
  const Backend rounding = make_reference_backend(true);
  Program program = forward_program(network_from(kNetwork), kRows);
  run_passes(program, {mixed_precision(DType::f16), dead_code(), fuse_horizontally(*rounding.planner)});
  Session session(program, rounding);
  session.set("fc1.weight", std::vector<float>(7 * 5 * 4 * 4, 1e5f));
  const auto found = find_non_finite(session.executable(), 1, [&] { session.set(batch(1)); });
  CHECK(found == "the output of fc1.weight, cast");
}

TEST_CASE("where the second time everything is finite, that is said") {
  with_backends([](const Backend& backend) {
    CHECK(search(backend, {batch(1)}) == "nothing");
    CHECK(search(backend, {batch(1), batch(2), batch(3)}) == "nothing");
  });
}
