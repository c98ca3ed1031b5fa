// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/graph/ops/loss_scale.h"
#include "core/graph/ops/step_guard.h"
#include "cpu/backend.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr int64_t kRows = 3, kChannels = 2, kSide = 5;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const char* const kNetwork = R"(
input: [2, 5, 5]
layers:
  - conv2d: {out_channels: 17, kernel_size: 3, name: conv, bias: false}
  - batch_norm: {name: norm}
  - relu
  - flatten
  - linear: {out_features: 3, name: fc}
)";

/// Training settings of a network.
struct Form {
  std::string optimizer;
  int64_t micro_batches = 1;
  bool scaled = false;
  uint64_t seed = 1;
};

/// As assembled in core/recipe/.
Program program_of(const Form& form, const StepGuards& guards) {
  const auto optimizer = optimizer_from(form.optimizer);
  Program program = forward_program(network_from(kNetwork), kRows);
  run_passes(program, {fuse_relu(), autodiff(form.scaled), accumulate(form.micro_batches)});
  if (guards.loss) run_passes(program, {sum_losses()});
  append_update(*optimizer, program, program.entry(updating_entry(program)), {0.05f, 0.04f, 0.03f}, guards);
  if (guards.counts || form.scaled) run_passes(program, {guard_statistics()});
  run_passes(program, {average_weights(0.75), dead_code()});
  return program;
}

/// Changes to the data of one step.
enum class Planted { nothing, nan, spike, steep, overflow, infinite_gradient };

class Run {
 public:
  Run(const Backend& backend, const Form& form, const StepGuards& guards)
      : form_(form), session_(program_of(form, guards), backend, form.seed) {
    for (const Tensor& tensor : session_.executable().plan().tensors) {
      if (!tensor.name.ends_with(state_suffix::kAverage)) continue;
      const std::string of =
          tensor.name.substr(0, tensor.name.size() - std::string(state_suffix::kAverage).size());
      const std::vector<double> values = session_.persistent(of);
      session_.set(tensor.name, {values.begin(), values.end()});
    }
  }

  /// The planted data are in the first sample of the last micro-batch.
  void step(Planted planted = Planted::nothing) {
    for (int64_t i = 0; i < form_.micro_batches; ++i) {
      const bool last = i == form_.micro_batches - 1;
      set_batch(static_cast<uint64_t>(steps_ * form_.micro_batches + i), last ? planted : Planted::nothing);
      if (form_.micro_batches == 1) {
        session_.run(entry_name::kTrainStep);
      } else {
        session_.run(i == 0 ? entry_name::kAccumulateFirst : entry_name::kAccumulateNext);
      }
    }
    if (form_.micro_batches > 1) session_.run(entry_name::kUpdate);
    ++steps_;
  }

  double output(const std::string& name) const {
    return session_.output(form_.micro_batches > 1 ? entry_name::kUpdate : entry_name::kTrainStep, name)[0];
  }
  double number(const std::string& name) const { return session_.persistent(name)[0]; }

  /// Everything that outlives a step except the list of steps to skip.
  std::map<std::string, std::vector<double>> states() {
    std::map<std::string, std::vector<double>> all;
    for (const Tensor& tensor : session_.executable().plan().tensors) {
      if (!is_persistent(tensor.role) || tensor.role == Role::gradient_sum) continue;
      if (tensor.name != state_name::kGuardSkipSteps) all[tensor.name] = session_.persistent(tensor.name);
    }
    return all;
  }

 private:
  void set_batch(uint64_t number, Planted planted) {
    RandomStream random(random_key(form_.seed, fmt::format("batch {}", number)));
    std::vector<float> images(static_cast<size_t>(kRows * kChannels * kSide * kSide)), labels;
    for (float& value : images) value = 2 * random.next_uniform() - 1;
    for (int64_t n = 0; n < kRows; ++n) labels.push_back(static_cast<float>(random.next_below(3)));
    if (planted == Planted::nan) images[7] = kNan;
    std::vector<float> weights(static_cast<size_t>(kRows), 1.0f / static_cast<float>(kRows));
    if (planted == Planted::spike) weights[1] = 1e4f;
    if (planted == Planted::steep) weights[1] = -1e4f;     // the loss falls, its gradients are large
    if (planted == Planted::overflow) weights[1] = 1e36f;  // finite, but not times the loss's scale
    if (planted == Planted::infinite_gradient) {  // the samples' losses cancel, but not their gradients
      weights[1] = 2.5e38f;
      weights[2] = -2.5e38f;
    }
    session_.set({{"images", images},
                  {"labels", labels},
                  {"sample_index", std::vector<float>(static_cast<size_t>(kRows), 0)},
                  {"weights", weights}});
  }

  Form form_;
  Session session_;
  int64_t steps_ = 0;
};

void check_same(Run& a, Run& b) {
  const auto of_a = a.states(), of_b = b.states();
  REQUIRE(of_a.size() == of_b.size());
  for (const auto& [name, values] : of_a) {
    INFO(name);
    CHECK(values == of_b.at(name));
    for (const double value : values) REQUIRE(std::isfinite(value));
  }
}

std::vector<Form> forms() {
  std::vector<Form> all;
  for (const uint64_t seed : {1, 2}) {
    for (const int64_t micro_batches : {1, 3}) {
      for (const bool scaled : {false, true}) {
        for (const char* optimizer :
             {"{name: sgd, momentum: 0.9, clip_norm: 1}", "{name: adamw, weight_decay: 0.1}",
              "{name: sgd, momentum: 0.9, clip_value: 0.5}"}) {
          all.push_back({optimizer, micro_batches, scaled, seed});
        }
      }
    }
  }
  return all;
}

void for_each_run(const std::function<void(const Backend&, const Form&)>& check) {
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  for (const Backend* backend : {&cpu, &reference}) {
    for (const Form& form : forms()) {
      INFO(fmt::format("{} {} micro-batches {} scaled {} seed {}", backend->planner->name(), form.optimizer,
                       form.micro_batches, form.scaled, form.seed));
      check(*backend, form);
    }
  }
}

StepGuards guards(const std::vector<int32_t>& told = {}) {
  StepGuards all{.loss = true, .counts = true, .spike = SpikeLimit{.window = 8}, .skip_steps = told};
  all.skip_steps.resize(6, 0);
  return all;
}

}  // namespace

TEST_CASE("a run that meets NaN or a spike ends with the bits of one that is told to skip these steps") {
  static constexpr int kSteps = 13, kNanAt = 3, kSpikeAt = 9, kSteepAt = 11;
  static const std::vector<int32_t> all = {kNanAt, kNanAt, kSpikeAt, kSpikeAt, kSteepAt, kSteepAt};
  for_each_run([](const Backend& backend, const Form& form) {
    Run met(backend, form, guards()), told(backend, form, guards(all)), clean(backend, form, guards(all));
    for (int step = 1; step <= kSteps; ++step) {
      const Planted planted = step == kNanAt     ? Planted::nan
                              : step == kSpikeAt ? Planted::spike
                              : step == kSteepAt ? Planted::steep
                                                 : Planted::nothing;
      met.step(planted);
      told.step(planted);
      clean.step();
      const SkipReason reason = step == kNanAt     ? SkipReason::loss
                                : step == kSpikeAt ? SkipReason::spike
                                : step == kSteepAt ? SkipReason::gradient_spike
                                                   : SkipReason::none;
      CHECK(met.output("guard_reason") == static_cast<double>(reason));
      CHECK((told.output("guard_reason") == 0) == (reason == SkipReason::none));
    }
    check_same(met, told);
    check_same(met, clean);
    CHECK(met.number("counter.step") == kSteps);
    CHECK(met.number("counter.updates") == kSteps - 3);
    CHECK(met.number("guard.skipped") == 3);
    CHECK(met.number("guard.in_a_row") == 0);
    CHECK(met.number("guard.accepted") == kSteps - 3);
    if (form.scaled) CHECK(met.number("loss_scale.skipped") == 0);
  });
}

TEST_CASE("a step that is skipped changes counters and nothing else") {
  for_each_run([](const Backend& backend, const Form& form) {
    Run run(backend, form, guards());
    for (int step = 0; step < 6; ++step) run.step();
    auto before = run.states();
    run.step(Planted::nan);
    run.step(Planted::spike);
    run.step(Planted::steep);
    const auto after = run.states();
    before["counter.step"][0] += 3;
    before["guard.skipped"][0] = before["guard.in_a_row"][0] = 3;
    CHECK(after == before);
    run.step();
    std::set<std::string> same;
    for (const auto& [name, values] : run.states()) {
      if (values == after.at(name)) same.insert(name);
    }
    std::set<std::string> constants = {"lr_table", "guard.skipped", "one"};
    if (form.scaled) constants.insert({"loss_scale", "loss_scale.skipped"});
    for (const std::string& name : same) {
      INFO(name);
      CHECK(constants.contains(name));
    }
  });
}

TEST_CASE("a scaled loss whose gradients overflow is skipped by its scale, and the guard counts nothing") {
  for_each_run([](const Backend& backend, const Form& form) {
    if (!form.scaled) return;
    Run guarded(backend, form, guards()), plain(backend, form, {});
    for (const Planted planted : {Planted::nothing, Planted::nothing, Planted::overflow, Planted::nothing}) {
      guarded.step(planted);
      plain.step(planted);
    }
    CHECK(guarded.number("loss_scale") == 32768);
    CHECK(guarded.number("loss_scale.skipped") == 1);
    CHECK(guarded.number("guard.skipped") == 0);
    CHECK(guarded.number("guard.in_a_row") == 0);
    CHECK(guarded.number("guard.accepted") == 3);
    const auto all = guarded.states();
    for (const auto& [name, values] : plain.states()) {
      INFO(name);
      CHECK(all.at(name) == values);
    }
  });
}

TEST_CASE("loss scaling by itself leaves averages and statistics alone in a step that it skips") {
  for_each_run([](const Backend& backend, const Form& form) {
    if (!form.scaled) return;
    Run run(backend, form, {});
    for (int step = 0; step < 3; ++step) run.step();
    auto before = run.states();
    run.step(Planted::nan);
    before["counter.step"][0] += 1;
    before["loss_scale"][0] /= 2;
    before["loss_scale.good_steps"][0] = 0;
    before["loss_scale.skipped"][0] = 1;
    CHECK(run.states() == before);
  });
}

TEST_CASE(
    "guards that meet nothing leave the bits of a run without them, and without them the program is the "
    "same") {
  for_each_run([](const Backend& backend, const Form& form) {
    if (form.optimizer.find("clip_norm") != std::string::npos) return;  // the norm is summed in another order
    Run guarded(backend, form, guards()), plain(backend, form, {});
    for (int step = 0; step < 6; ++step) guarded.step(), plain.step();
    const auto all = guarded.states();
    for (const auto& [name, values] : plain.states()) {
      INFO(name);
      CHECK(all.at(name) == values);
    }
  });
  const Form form{.optimizer = "{name: sgd, momentum: 0.9, clip_norm: 1}"};
  const std::string off = to_text(program_of(form, {})), watched = to_text(program_of(form, {.loss = true}));
  CHECK(off.find("guard") == std::string::npos);
  CHECK(off.find("unscale") == std::string::npos);
  CHECK(watched.find("step_guard(") != std::string::npos);
  CHECK(watched.find("@guard") == std::string::npos);
}

TEST_CASE("a guard that only watches the loss keeps the weights from before a step without a loss") {
  for (const int64_t micro_batches : {1, 3}) {
    const auto cpu = make_cpu_backend(1);
    Run run(cpu, {.optimizer = "{name: adamw}", .micro_batches = micro_batches}, {.loss = true});
    for (int step = 0; step < 3; ++step) run.step();
    const auto before = run.states();
    run.step(Planted::nan);
    const auto after = run.states();
    for (const char* name :
         {"conv.weight", "conv.weight.ema", "fc.bias", "fc.weight.exp_avg", "counter.updates"}) {
      INFO(name);
      CHECK(after.at(name) == before.at(name));
    }
    CHECK(after.at("counter.step")[0] == 4);
  }
}

TEST_CASE(
    "where the norm is limited, a guard refuses a step whose loss is a number and whose gradients are none") {
  for (const uint64_t seed : {1, 2}) {
    for (const int64_t micro_batches : {1, 3}) {
      for (const char* more : {"", ", clip_value: 1"}) {
        const auto cpu = make_cpu_backend(1);
        Run run(cpu,
                {.optimizer = fmt::format("{{name: sgd, momentum: 0.9, clip_norm: 1{}}}", more),
                 .micro_batches = micro_batches,
                 .seed = seed},
                {.loss = true});
        for (int step = 0; step < 3; ++step) run.step();
        CHECK(run.output("guard_reason") == 0);
        const auto before = run.states();
        run.step(Planted::infinite_gradient);
        CHECK(std::isfinite(micro_batches > 1 ? run.number(state_name::kGuardLoss) : run.output("loss")));
        CHECK(run.output("guard_reason") == static_cast<double>(SkipReason::gradients));
        const auto after = run.states();
        for (const char* name :
             {"conv.weight", "conv.weight.ema", "fc.bias", "fc.weight.momentum", "counter.updates"}) {
          INFO(name);
          CHECK(after.at(name) == before.at(name));
        }
      }
    }
  }
}
