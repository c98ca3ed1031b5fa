// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/catch.h"

#include "core/base/rng.h"
#include "cpu/backend.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr int64_t kBatch = 4;
constexpr double kDecay = 0.75;
const char* const kNetwork = R"(
input: [2, 5, 5]
layers:
  - conv2d: {out_channels: 17, kernel_size: 3, name: conv, bias: false}
  - batch_norm: {name: norm}
  - relu
  - flatten
  - linear: {out_features: 3, name: fc}
)";
const std::vector<std::string> kAveragedTensors = {
    "conv.weight",      "norm.weight", "norm.bias", "norm.running_mean",
    "norm.running_var", "fc.weight",   "fc.bias"};

void set_batch(Session& session, int64_t samples, uint64_t number) {
  RandomStream random(random_key(number, "batch"));
  std::vector<float> images(static_cast<size_t>(samples * 2 * 5 * 5)), labels;
  for (float& value : images) value = 2 * random.next_uniform() - 1;
  for (int64_t n = 0; n < samples; ++n) labels.push_back(static_cast<float>(random.next_below(3)));
  session.set({{input_name::kImages, images},
               {input_name::kLabels, labels},
               {input_name::kSampleIndex, std::vector<float>(static_cast<size_t>(samples), 0)},
               {input_name::kWeights, std::vector<float>(static_cast<size_t>(samples), 0.25f)}});
}

using Values = std::map<std::string, std::vector<double>>;

Values values_of(const Session& session, const std::string& suffix) {
  Values all;
  for (const std::string& name : kAveragedTensors) all[name] = session.persistent(name + suffix);
  return all;
}

/// The averages after one update.
void follow(Values& averages, const Values& now, double decay = kDecay) {
  for (auto& [name, average] : averages) {
    for (size_t i = 0; i < average.size(); ++i)
      average[i] = decay * average[i] + (1 - decay) * now.at(name)[i];
  }
}

/// Averages begin as copies.
void start(Session& session) {
  for (const std::string& name : kAveragedTensors) {
    const std::vector<double> values = session.persistent(name);
    session.set(name + ".ema", {values.begin(), values.end()});
  }
}

void check_close(const Values& found, const Values& expected, double tolerance) {
  for (const std::string& name : kAveragedTensors) {
    INFO(name);
    CHECK(relative_error(found.at(name), expected.at(name)) < tolerance);
  }
}

std::unique_ptr<Optimizer> optimizer() {
  return optimizer_from("{name: sgd, momentum: 0.9}");
}

}  // namespace

TEST_CASE("averages follow parameters and running statistics, and are evaluated in their place") {
  Program program = training_program(network_from(kNetwork), kBatch, *optimizer(), {0.1f}, {fuse_relu()});
  run_passes(program, {average_weights(kDecay), dead_code()});
  const Backend reference = make_reference_backend();
  const auto cpu = make_cpu_backend(2);
  for (const Backend* backend : {&reference, &cpu}) {
    INFO(backend->planner->name());
    Session session(program, *backend);
    start(session);
    Values expected = values_of(session, "");
    for (uint64_t step = 0; step < 4; ++step) {
      set_batch(session, kBatch, step);
      session.run(entry_name::kTrainStep);
      follow(expected, values_of(session, ""));
    }
    check_close(values_of(session, ".ema"), expected, 1e-6);
    CHECK(relative_error(session.persistent("fc.weight.ema"), session.persistent("fc.weight")) > 1e-3);

    session.run(entry_name::kEvaluateAverages);
    const double averaged = session.output(entry_name::kEvaluateAverages, output_name::kLoss)[0];
    session.run(entry_name::kEvaluate);
    CHECK(session.output(entry_name::kEvaluate, output_name::kLoss)[0] != Approx(averaged).epsilon(1e-4));
    for (const auto& [name, values] : expected) session.set(name, {values.begin(), values.end()});
    session.run(entry_name::kEvaluate);
    CHECK(session.output(entry_name::kEvaluate, output_name::kLoss)[0] == Approx(averaged).epsilon(1e-5));
  }
}

TEST_CASE("with a warm-up the decay of update t is at most (1 + t) / (10 + t)") {
  constexpr size_t kUpdates = 8;
  Program program = training_program(network_from(kNetwork), kBatch, *optimizer(), {0.1f}, {fuse_relu()});
  run_passes(program, {average_weights(0.4, kUpdates), dead_code()});
  const Backend reference = make_reference_backend();
  const auto cpu = make_cpu_backend(2);
  for (const Backend* backend : {&reference, &cpu}) {
    INFO(backend->planner->name());
    Session session(program, *backend);
    start(session);
    Values expected = values_of(session, "");
    for (uint64_t step = 1; step <= kUpdates; ++step) {
      set_batch(session, kBatch, step);
      session.run(entry_name::kTrainStep);
      const auto t = static_cast<double>(step);
      follow(expected, values_of(session, ""), std::min(0.4, (1 + t) / (10 + t)));
    }
    check_close(values_of(session, ".ema"), expected, 1e-6);
  }
}

TEST_CASE("averages move once per update, however many micro-batches it has") {
  const auto made = optimizer();
  Program program = forward_program(network_from(kNetwork), kBatch / 2);
  run_passes(program, {autodiff(), accumulate(2)});
  append_update(*made, program, program.entry(updating_entry(program)), {0.1f});
  run_passes(program, {average_weights(kDecay), dead_code()});
  const Backend reference = make_reference_backend();
  Session session(program, reference);
  start(session);
  Values expected = values_of(session, "");
  for (uint64_t step = 0; step < 3; ++step) {
    for (const char* entry : {entry_name::kAccumulateFirst, entry_name::kAccumulateNext}) {
      set_batch(session, kBatch / 2, 2 * step + (entry == entry_name::kAccumulateFirst ? 0 : 1));
      session.run(entry);
    }
    session.run(entry_name::kUpdate);
    follow(expected, values_of(session, ""));
  }
  check_close(values_of(session, ".ema"), expected, 1e-7);
}

TEST_CASE("the averages of a convolution's weights lie as the weights do") {
  Program program = training_program(network_from(kNetwork), kBatch, *optimizer(), {0.1f}, {});
  run_passes(program, {average_weights(kDecay), dead_code()});
  const auto cpu = make_cpu_backend(2);
  const Plan plan = make_plan(program, *cpu.planner);
  auto layout = [&](const std::string& name) {
    return plan.placements[static_cast<size_t>(plan.find(name))].layout;
  };
  for (const std::string& name : kAveragedTensors) CHECK(layout(name) == layout(name + ".ema"));
}
