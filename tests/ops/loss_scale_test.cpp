// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/loss_scale.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include "tests/catch.h"

#include "core/step/stages.h"
#include "cpu/backend.h"
#include "tests/ops/fixture.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
constexpr const char* kScalingStep = entry_name::kTrainStep;

Entry empty_entry(const char* name) {
  return Entry(name);
}

/// One parameter w with the gradient g (the input) times the loss's scale, and the optimiser's update.
Program scaled_update(const std::string& optimizer, int64_t size) {
  Program program;
  program.entries.push_back(empty_entry(kScalingStep));
  Builder build(program, program.entries[0]);
  build.set_phase(Phase::backward);
  const TensorSpec spec{{size}, DType::f32};
  const TensorId w =
      program.persistent("w", spec, Role::parameter, {.kind = Initial::Kind::uniform, .a = -1, .b = 1});
  const TensorId g = build.emit<MultiplyBy>({program.input("g", spec), loss_scale(program)});
  program.entries[0].gradients.push_back({w, g});
  append_update(*optimizer_from(optimizer), program, program.entries[0], {0.01f});
  return program;
}

/// The first values that a tensor of this name gets: a batch as scripts/fixtures/draws.py draws it.
std::vector<float> drawn(const std::string& name, const Shape& shape, double low, double high) {
  const Backend backend = make_reference_backend();
  Program program;
  program.persistent(name, {shape, DType::f32}, Role::state,
                     {.kind = Initial::Kind::uniform, .a = low, .b = high});
  program.entries.push_back(empty_entry(kScalingStep));
  Session session(program, backend, 1);
  return session.executable().read(session.id(name));
}

/// As PLANTED in scripts/fixtures/scaler.py.
float planted(size_t step) {
  if (step == 3 || step == 2500) return kFloatInfinity;
  if (step == 4) return NAN;
  return step == 9 ? -kFloatInfinity : 0;
}

void follow_trace(const Backend& backend, const std::string& name, const std::string& optimizer) {
  INFO(name << " on " << backend.planner->name());
  constexpr size_t kSize = 7, kBatches = 5;
  const Fixture fixture("scaler");
  const std::vector<float> scales = fixture.values(name + "/scales");
  std::vector<std::vector<float>> gradients;
  for (size_t i = 0; i < kBatches; ++i)
    gradients.push_back(drawn(fmt::format("gradient.{}", i), {kSize}, -1, 1));
  Session session(scaled_update(optimizer, kSize), backend, 1);
  size_t different = 0, skipped = 0;
  for (size_t step = 0; step < scales.size(); ++step) {
    std::vector<float> g = gradients[step % kBatches];
    if (planted(step) != 0) g[step % kSize] = planted(step), ++skipped;
    session.set("g", g);
    session.run(kScalingStep);
    different += session.output(kScalingStep, output_name::kLossScale)[0] == scales[step] ? 0 : 1;
  }
  CHECK(different == 0);
  CHECK(session.output(kScalingStep, output_name::kOverflows)[0] == static_cast<double>(skipped));
  CHECK(session.persistent("counter.step")[0] == static_cast<double>(scales.size()));
  CHECK(session.persistent("counter.updates")[0] == static_cast<double>(scales.size() - skipped));
  CHECK(relative_error(session.persistent("w"), fixture.doubles(name + "/w")) < 2e-5);
}

}  // namespace

TEST_CASE("the scale, the skipped steps and the weights follow PyTorch's GradScaler") {
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  for (const Backend* backend : {&cpu, &reference}) {
    follow_trace(*backend, "sgd", "{name: sgd, lr: 0.01, momentum: 0.9}");
    follow_trace(*backend, "adam", "{name: adam, lr: 0.01}");
    follow_trace(*backend, "clip_norm", "{name: sgd, lr: 0.01, clip_norm: 0.5}");
    follow_trace(*backend, "clip_value", "{name: sgd, lr: 0.01, clip_value: 0.7}");
  }
}

TEST_CASE("a scale grows no further than f32 reaches") {
  const auto cpu = make_cpu_backend(1);
  const Backend reference = make_reference_backend();
  for (const Backend* backend : {&cpu, &reference}) {
    INFO(backend->planner->name());
    Program program;
    program.entries.push_back(empty_entry(kScalingStep));
    Builder build(program, program.entries[0]);
    const TensorId scale = loss_scale(program, {.initial = std::ldexp(1, 126)});
    const TensorId good = good_step_counter(program), skipped = skipped_step_counter(program);
    const auto next = build.emit_all(std::make_shared<UpdateLossScale>(LossScaling{.interval = 1}),
                                     {scale, good, skipped, program.input("found", {{1}, DType::f32})});
    build.assign(scale, next[0]);
    Session session(program, *backend);
    session.set("found", {0});
    for (const double expected : {std::ldexp(1, 127), std::ldexp(1, 127)}) {
      session.run(kScalingStep);
      CHECK(session.persistent("loss_scale")[0] == expected);
    }
    session.set("found", {1});
    session.run(kScalingStep);
    CHECK(session.persistent("loss_scale")[0] == std::ldexp(1, 126));
  }
}

TEST_CASE("one value that is not finite is found wherever it stands, and none elsewhere") {
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  const std::vector<int64_t> sizes = {1, 33, 70001};
  for (const std::optional<double> max_norm : {std::optional<double>(), std::optional<double>(2.0)}) {
    Program program;
    program.entries.push_back(empty_entry(kScalingStep));
    Builder build(program, program.entries[0]);
    std::vector<TensorId> inputs = {program.input("scale", {{1}, DType::f32})};
    std::map<std::string, std::vector<float>> values = {{"scale", {1024}}};
    for (size_t i = 0; i < sizes.size(); ++i) {
      const std::string name = fmt::format("g{}", i);
      inputs.push_back(program.input(name, {{sizes[i]}, DType::f32}));
      values[name] = drawn(name, {sizes[i]}, -1e30, 1e30);  // f32 cannot hold their squares
    }
    const auto made = build.emit_all(std::make_shared<Unscale>(max_norm), inputs);
    for (size_t o = 0; o < made.size(); ++o) {
      program.entries[0].outputs.push_back({fmt::format("{}", o), made[o]});
    }
    Session on_cpu(program, cpu), exact(program, reference);
    auto check = [&](double found) {
      on_cpu.set(values);
      exact.set(values);
      on_cpu.run(kScalingStep);
      exact.run(kScalingStep);
      CHECK(on_cpu.output(kScalingStep, "1")[0] == found);
      CHECK(exact.output(kScalingStep, "1")[0] == found);
    };
    check(0);
    for (size_t o : {size_t{0}, made.size() - 1}) {
      const std::string name = fmt::format("{}", o);
      CHECK(relative_error(on_cpu.output(kScalingStep, name), exact.output(kScalingStep, name)) < 1e-6);
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      std::vector<float>& g = values[fmt::format("g{}", i)];
      for (const size_t at : {size_t{0}, g.size() / 2, g.size() - 1}) {
        for (const float bad : {kFloatInfinity, -kFloatInfinity, std::numeric_limits<float>::quiet_NaN()}) {
          INFO(i << ", " << at << ", " << bad);
          const float before = std::exchange(g[at], bad);
          check(1);
          g[at] = before;
        }
      }
    }
  }
}

TEST_CASE("micro-batches are scaled each, and skipped together") {
  const Network network = network_from("{input: [3, 1, 1], layers: [flatten, {linear: {out_features: 2}}]}");
  const auto cpu = make_cpu_backend(1);
  Program program = forward_program(network, 2);
  run_passes(program, {autodiff(true), accumulate(2)});
  append_update(*optimizer_from("{name: sgd, lr: 0.5}"), program, program.entry(entry_name::kUpdate), {0.5f});
  run_passes(program, {dead_code()});
  Session session(program, cpu);
  session.set({{input_name::kLabels, {0, 1}}, {input_name::kWeights, {0.25f, 0.25f}}});
  const std::vector<double> first = session.persistent("1.weight");
  auto step = [&](float first_pixel) {
    session.set(input_name::kImages, {first_pixel, 1, 2, 3, 4, 5});
    session.run(entry_name::kAccumulateFirst);
    session.set(input_name::kImages, {0, 1, 2, 3, 4, 5});
    session.run(entry_name::kAccumulateNext);
    session.run(entry_name::kUpdate);
  };
  step(kFloatInfinity);  // only the first of the two is bad
  CHECK(session.persistent("1.weight") == first);
  CHECK(session.output(entry_name::kUpdate, output_name::kLossScale)[0] == 32768);
  CHECK(session.output(entry_name::kUpdate, output_name::kOverflows)[0] == 1);
  step(0);
  CHECK(session.persistent("1.weight") != first);
  CHECK(session.output(entry_name::kUpdate, output_name::kLossScale)[0] == 32768);
  CHECK(session.persistent("counter.updates")[0] == 1);
}

TEST_CASE("the shipped MLP in fp16 has PyTorch's losses and scales") {
  constexpr int64_t kBatch = 32;
  constexpr size_t kBatches = 4;
  const Fixture fixture("scaler");
  const std::vector<float> scales = fixture.values("mlp_amp/scales"),
                           losses = fixture.values("mlp_amp/losses");
  const Backend backend = make_reference_backend(true);
  Program program = forward_program(network_file("configs/models/mlp_10.yaml"), kBatch);
  run_passes(program, {fuse_relu(), mixed_precision(DType::f16), autodiff(true)});
  append_update(*optimizer_from("{name: sgd, lr: 0.01}"), program, program.entry(kScalingStep), {0.01f});
  run_passes(program, {dead_code()});
  Session session(program, backend, 1);
  session.set(input_name::kWeights, std::vector<float>(kBatch, 1.0f / kBatch));
  for (size_t step = 0; step < scales.size(); ++step) {
    INFO("step " << step);
    const size_t batch = step % kBatches;
    std::vector<float> images =
        drawn(fmt::format("images.{}", batch), {kBatch, 10}, -std::sqrt(3.0), std::sqrt(3.0));
    std::vector<float> labels = drawn(fmt::format("labels.{}", batch), {kBatch}, 0, 10);
    for (float& label : labels) label = std::floor(label);
    if (step == 5) {  // too large for fp16
      for (float& pixel : images) pixel *= 1e5f;
    }
    session.set({{input_name::kImages, images}, {input_name::kLabels, labels}});
    session.run(kScalingStep);
    const double loss = session.output(kScalingStep, output_name::kLoss)[0];
    CHECK(session.output(kScalingStep, output_name::kLossScale)[0] == scales[step]);
    CHECK(std::isfinite(loss) == std::isfinite(losses[step]));
    if (std::isfinite(losses[step])) CHECK(std::abs(loss - losses[step]) < 1e-3);
  }
}
