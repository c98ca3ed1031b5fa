// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/graph/operation.h"
#include "core/graph/ops/optimizer_steps.h"
#include "cpu/backend.h"
#include "tests/ops/rules.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr int64_t kBatch = 6;
const char* const kNetwork = R"(
input: [3, 7, 6]
layers:
  - conv2d: {out_channels: 17, kernel_size: 3, padding: 1}
  - sigmoid
  - conv2d: {out_channels: 9, kernel_size: 3, padding: 1}
  - tanh
  - avg_pool2d: 2
  - flatten
  - linear: 13
  - gelu
  - linear: {out_features: 5, bias: false}
)";
const std::vector<float> kRates = {0.02f, 0.01f, 0.04f, 0.002f};
// Adam and RMSprop move by about lr for any gradient, so that rounding near zero shows at once.
const std::vector<float> kSmallRates = {1e-3f, 5e-4f, 2e-3f, 1e-4f};

std::map<std::string, std::vector<float>> batch_of(int64_t samples, int step, float weight) {
  RandomStream random(random_key(11, "batch"), static_cast<uint32_t>(step));
  std::vector<float> images(static_cast<size_t>(samples * 3 * 7 * 6)), labels, index;
  for (float& value : images) value = 3 * random.next_uniform() - 1.5f;
  for (int64_t n = 0; n < samples; ++n) {
    labels.push_back(static_cast<float>(random.next_below(5)));
    index.push_back(static_cast<float>(n));
  }
  return {{input_name::kImages, images},
          {input_name::kLabels, labels},
          {input_name::kSampleIndex, index},
          {input_name::kWeights, std::vector<float>(static_cast<size_t>(samples), weight)}};
}

std::vector<std::string> changing_tensors(const Program& program) {
  std::vector<std::string> names;
  for (const Tensor& tensor : program.tensors) {
    if (is_persistent(tensor.role) && tensor.role != Role::constant) names.push_back(tensor.name);
  }
  return names;
}

const std::vector<std::string> kOptimizers = {
    "sgd",
    "{name: sgd, weight_decay: 0.1}",
    "{name: sgd, momentum: 0.9}",
    "{name: sgd, momentum: 0.9, nesterov: true, weight_decay: 0.05, no_decay: [bias]}",
    "{name: sgd, momentum: 0.5, clip_norm: 0.1}",
    "{name: sgd, momentum: 0.5, clip_norm: 1000}",
    "{name: sgd, momentum: 0.5, clip_value: 0.003}",
    "{name: sgd, clip_value: 0.003, clip_norm: 0.02}",
    "{name: lars, trust_coefficient: 0.02, weight_decay: 0.1}",
    "{name: lars, trust_coefficient: 0.05, momentum: 0, clip_norm: 0.1, no_decay: []}",
    "{name: adam, weight_decay: 0.1}",
    "adamw",
    "{name: adamw, beta1: 0.5, beta2: 0.9, eps: 1e-3, weight_decay: 0.2}",
    "{name: adamw, clip_norm: 0.05, weight_decay: 0}",
    "{name: lion, beta1: 0.5, weight_decay: 0.2}",
    "{name: rmsprop, momentum: 0.9}",
    "{name: rmsprop, alpha: 0.9, centered: true, weight_decay: 0.1}",
    "{name: rmsprop, momentum: 0.5, centered: true, eps: 1e-4}",
    "{name: muon, adamw_eps: 1e-4}",
    "{name: muon, momentum: 0.5, nesterov: false, clip_norm: 0.05, adamw_lr_factor: 0.1}",
    "{name: muon, clip_value: 0.003, no_decay: [bias]}",
};

/// Those above, and every optimiser with its defaults.
std::vector<std::string> optimizer_texts() {
  std::vector<std::string> texts = kOptimizers;
  for_each_rule([&](const auto& rule) { texts.emplace_back(rule.kName); });
  return texts;
}

/// Stored elements outside of the tensor: zero, or they would end up in norms.
void check_padding(const Executable& executable) {
  const Plan& plan = executable.plan();
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Layout& layout = plan.placements[i].layout;
    if (!is_persistent(plan.tensors[i].role) || !layout.has_padding()) continue;
    INFO(plan.tensors[i].name);
    const auto* stored = static_cast<const float*>(executable.address(static_cast<TensorId>(i)));
    std::vector<float> rest(stored, stored + stored_elements(layout, plan.tensors[i].spec.shape));
    for_each_place(layout, plan.tensors[i].spec.shape,
                   [&](int64_t place) { rest[static_cast<size_t>(place)] = 0; });
    CHECK(std::all_of(rest.begin(), rest.end(), [](float value) { return value == 0; }));
  }
}

}  // namespace

TEST_CASE("five steps of every optimiser change parameters, moments and counters alike on both backends") {
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  const Network network = network_from(kNetwork);
  for (const std::string& text : optimizer_texts()) {
    INFO(text);
    const bool divides = text.find("adam") != std::string::npos || text.find("rmsprop") != std::string::npos;
    const std::vector<float>& rates = divides ? kSmallRates : kRates;
    const Program program = training_program(network, kBatch, *optimizer_from(text), rates, {fuse_relu()});
    Session found(program, cpu), expected(program, reference);
    for (int step = 0; step < 5; ++step) {
      for (Session* session : {&found, &expected}) {
        session->set(batch_of(kBatch, step, 1.0f / kBatch));
        session->run(entry_name::kTrainStep);
      }
      // The fifth step is past the table: its last entry holds.
      CHECK(found.output(entry_name::kTrainStep, output_name::kLearningRate)[0] ==
            rates[static_cast<size_t>(std::min(step, 3))]);
      CHECK(relative_error(found.output(entry_name::kTrainStep, output_name::kLoss),
                           expected.output(entry_name::kTrainStep, output_name::kLoss)) < 1e-5);
      if (text.find("clip_norm") != std::string::npos) {
        CHECK(relative_error(found.output(entry_name::kTrainStep, output_name::kGradientNorm),
                             expected.output(entry_name::kTrainStep, output_name::kGradientNorm)) < 1e-4);
      }
    }
    for (const std::string& name : changing_tensors(program)) {
      INFO(name);
      CHECK(relative_error(found.persistent(name), expected.persistent(name)) < 1e-4);
    }
    check_padding(found.executable());
    CHECK(found.persistent("counter.step")[0] == 5);
    CHECK(found.persistent("counter.updates")[0] == 5);
  }
}

TEST_CASE("clipping bounds the joint norm and leaves small gradients alone") {
  const Backend reference = make_reference_backend();
  const Network network = network_from(kNetwork);
  auto moved = [&](const std::string& optimizer) {
    const Program program = training_program(network, kBatch, *optimizer_from(optimizer), {1.0f}, {});
    Session session(program, reference);
    const std::vector<std::string> names = changing_tensors(program);
    double sum = 0;
    std::map<std::string, std::vector<double>> before;
    for (const std::string& name : names) before[name] = session.persistent(name);
    session.set(batch_of(kBatch, 0, 1.0f / kBatch));
    session.run(entry_name::kTrainStep);
    for (const std::string& name : names) {
      if (name.starts_with("counter")) continue;
      const std::vector<double> after = session.persistent(name);
      for (size_t i = 0; i < after.size(); ++i) sum += std::pow(after[i] - before[name][i], 2);
    }
    return std::sqrt(sum);
  };
  const double free = moved("sgd");
  CHECK(free > 0.2);
  CHECK(moved("{name: sgd, clip_norm: 0.1}") == Approx(0.1).epsilon(1e-4));
  CHECK(moved("{name: sgd, clip_norm: 1000}") == Approx(free).epsilon(1e-12));
}

TEST_CASE("three micro-batches update as one batch does") {
  constexpr int64_t kMicro = 2, kCount = kBatch / kMicro;
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  const Network network = network_from(kNetwork);
  const auto optimizer = optimizer_from("{name: sgd, momentum: 0.9, clip_norm: 0.5}");
  const Program whole = training_program(network, kBatch, *optimizer, kRates, {});
  Program split = forward_program(network, kMicro);
  run_passes(split, {fuse_relu(), autodiff(), accumulate(kCount)});
  append_update(*optimizer, split, split.entry(entry_name::kUpdate), kRates);
  run_passes(split, {dead_code()});

  struct Case {
    const Backend& backend;
    double tolerance;
  };
  for (const Case& c : {Case{reference, 1e-6}, Case{cpu, 1e-4}}) {
    Session one(whole, reference), parts(split, c.backend);
    for (int step = 0; step < 3; ++step) {
      const auto batch = batch_of(kBatch, step, 1.0f / kBatch);
      one.set(batch);
      one.run(entry_name::kTrainStep);
      double loss = 0;
      for (int64_t part = 0; part < kCount; ++part) {
        for (const auto& [name, values] : batch) {
          const auto size = static_cast<std::ptrdiff_t>(values.size()) / kCount;
          parts.set(name, {values.begin() + part * size, values.begin() + (part + 1) * size});
        }
        const char* entry = part == 0 ? entry_name::kAccumulateFirst : entry_name::kAccumulateNext;
        parts.run(entry);
        loss += parts.output(entry, output_name::kLoss)[0];
      }
      parts.run(entry_name::kUpdate);
      CHECK(loss == Approx(one.output(entry_name::kTrainStep, output_name::kLoss)[0]).epsilon(c.tolerance));
    }
    for (const std::string& name : changing_tensors(whole)) {
      INFO(name);
      CHECK(relative_error(parts.persistent(name), one.persistent(name)) < c.tolerance);
    }
  }
}

TEST_CASE("a skipped step leaves weights and moments as they were") {
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  std::vector<std::shared_ptr<const OptimizerStep>> steps = {std::make_shared<OptimizerStep>(
      update::Sgd{.momentum = 0.9}, std::vector<ParameterSettings>{{0.1}, {}})};
  for_each_rule([&](const auto& rule) {
    const ParameterSettings first{.weight_decay = 0.1, .lr_factor = 0.5, .adapts = rule.kAdapts};
    steps.push_back(std::make_shared<OptimizerStep>(rule, std::vector<ParameterSettings>{first, {}}));
  });
  for (const auto& step : steps) {
    for (const Backend* backend : {&cpu, &reference}) {
      INFO(step->name() << " with " << step->moments << " moments on " << backend->planner->name());
      Program program;
      program.entries.emplace_back("step");
      Builder build(program, program.entries[0]);
      auto one = [&](const char* name) { return program.input(name, {{1}, DType::f32}); };
      const TensorId count = program.persistent("count", {{1}, DType::i32}, Role::state, {});
      std::vector<TensorId> inputs = {one("lr"), count, kNone, one("skip")}, changed;
      for (size_t p = 0; p < step->parameters(); ++p) {
        // 20003 elements: both threads meet in the middle of a parameter.
        const TensorSpec spec{{p == 0 ? 17 : 20003}, DType::f32};
        for (size_t i = 0; i < 2 + step->moments; ++i) {
          const TensorId id = program.persistent("t" + std::to_string(10 * p + i), spec, Role::parameter,
                                                 {.kind = Initial::Kind::uniform, .a = 0.5, .b = 1});
          inputs.push_back(id);
          if (i != 1) changed.push_back(id);
        }
      }
      const std::vector<TensorId> values = build.emit_all(step, inputs);
      for (size_t i = 0; i < changed.size(); ++i) build.assign(changed[i], values[i]);

      Session session(program, *backend);
      auto all = [&] {
        std::vector<std::vector<double>> tensors;
        for (TensorId id : changed) tensors.push_back(session.persistent(program.tensor(id).name));
        return tensors;
      };
      const auto before = all();
      session.set({{"lr", {0.1f}}, {"skip", {1}}});
      session.run("step");
      CHECK(all() == before);
      session.set("skip", {0});
      session.run("step");
      const auto after = all();
      for (size_t i = 0; i < after.size(); ++i) {
        INFO(program.tensor(changed[i]).name);
        size_t same = 0;
        for (size_t e = 0; e < after[i].size(); ++e) same += after[i][e] == before[i][e] ? 1 : 0;
        CHECK(same < 10);  // rounding keeps an average that the new value happens to equal
      }
    }
  }
}
