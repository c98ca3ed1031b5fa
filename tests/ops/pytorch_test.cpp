// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tests/catch.h"

#include "core/graph/ops/attention.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/channels.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/optimizer_steps.h"
#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/resample2d.h"
#include "core/graph/ops/unary.h"
#include "cpu/backend.h"
#include "tests/ops/fixture_program.h"
#include "tests/ops/functions.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

Conv2dGeometry geometry_of(const Fixture& fixture, const std::string& name) {
  std::vector<int64_t> n;
  for (float value : fixture.values(name + "/geometry")) n.push_back(static_cast<int64_t>(value));
  return {.kernel = {n[0], n[1]},
          .stride = {n[2], n[3]},
          .padding = {n[4], n[5]},
          .dilation = {n[6], n[7]},
          .groups = n[8]};
}

}  // namespace

TEST_CASE("convolutions, linear layers and pools compute what PyTorch computes") {
  const Fixture fixture("operations");
  for_each_case(fixture, "conv2d", "x", [&](const std::string& name) {
    FixtureProgram p(fixture, name);
    p.operation(std::make_shared<Conv2d>(geometry_of(fixture, name)), {"x", "w", "b"});
    p.check();
  });
  for_each_case(fixture, "linear", "x", [&](const std::string& name) {
    FixtureProgram p(fixture, name);
    p.operation(std::make_shared<Linear>(), {"x", "w", "b"});
    p.check();
  });
  for_each_case(fixture, "max_pool2d", "x", [&](const std::string& name) {
    FixtureProgram p(fixture, name);
    p.operation(std::make_shared<MaxPool2d>(geometry_of(fixture, name)), {"x"});
    p.check();
  });
  for_each_case(fixture, "avg_pool2d", "x", [&](const std::string& name) {
    FixtureProgram p(fixture, name);
    p.operation(std::make_shared<AvgPool2d>(geometry_of(fixture, name)), {"x"});
    p.check();
  });
}

TEST_CASE("attention computes what PyTorch computes, gradients too") {
  const Fixture fixture("attention");
  for_each_case(fixture, "attention", "q", [&](const std::string& name) {
    FixtureProgram p(fixture, name);
    const std::vector<float> of = fixture.values(name + "/rule");
    const AttentionSettings rule{.heads = static_cast<int64_t>(of[0]),
                                 .kv_heads = static_cast<int64_t>(of[1]),
                                 .causal = of[2] != 0,
                                 .window = static_cast<int64_t>(of[3]),
                                 .scale = of[4]};
    p.input("first", DType::i32);
    p.operation(std::make_shared<Attention>(rule), {"q", "k", "v", "first", "", "", ""});
    CHECK(p.program.entries[0].outputs.size() == 4);
    p.check();
  });
}

TEST_CASE("batch normalisation with given statistics computes what PyTorch computes, gradients too") {
  const Fixture fixture("given_statistics");
  for_each_case(fixture, "batch_norm_given", "x", [&](const std::string& name) {
    FixtureProgram p(fixture, name);
    p.operation(std::make_shared<BatchNormInference>(1e-3), {"x", "gamma", "beta", "mean", "variance"});
    CHECK(p.program.entries[0].outputs.size() == 4);
    p.check();
  });
}

TEST_CASE("transposed convolutions, resampling and sums over channels compute what PyTorch computes") {
  const Fixture fixture("operations");
  for_each_case(fixture, "conv_transpose2d", "x", [&](const std::string& name) {
    FixtureProgram p(fixture, name);
    const Shape& y = fixture.shape(name + "/y");
    p.operation(std::make_shared<Conv2dBackwardData>(geometry_of(fixture, name), y), {"x", "w"});
    p.check();
  });
  const std::map<std::string, Resampling> rules = {{"nearest", Resampling::nearest},
                                                   {"bilinear", Resampling::bilinear},
                                                   {"bilinear_aligned", Resampling::bilinear_aligned},
                                                   {"average", Resampling::average}};
  for (const auto& [kind, rule] : rules) {
    for_each_case(fixture, kind, "x", [&, how = rule](const std::string& name) {
      FixtureProgram p(fixture, name);
      const Shape& y = fixture.shape(name + "/y");
      p.operation(std::make_shared<Resample2d>(how, Size2d{y[2], y[3]}), {"x"});
      p.check();
    });
  }
  for_each_case(fixture, "scale_channels", "x", [&](const std::string& name) {
    FixtureProgram p(fixture, name);
    p.operation(std::make_shared<ScaleChannels>(), {"x", "s"});
    p.check();
  });
  for_each_case(fixture, "add_channels", "x", [&](const std::string& name) {
    FixtureProgram p(fixture, name);
    p.operation(std::make_shared<AddChannels>(), {"x", "b"});
    p.check();
  });
}

TEST_CASE("element-wise functions compute what PyTorch computes") {
  const Fixture fixture("operations");
  int found = 0;
  for_each_functor([&](auto functor) {
    if (!fixture.has(std::string(functor.kName) + "/x")) return;  // PyTorch has no such name
    ++found;
    FixtureProgram p(fixture, functor.kName);
    p.operation(std::make_shared<Unary>(elementwise::Function(functor)), {"x"});
    p.check();
  });
  CHECK(found >= 9);
}

namespace {

/// The loss and its gradient, as the mean over the samples of a case of the fixture.
void check_cross_entropy(const Fixture& fixture, const std::string& kind) {
  for_each_case(fixture, kind, "x", [&](const std::string& name) {
    const double smoothing = fixture.values(name + "/smoothing")[0];
    const auto samples = fixture.shape(name + "/x")[0];
    FixtureProgram p(fixture, name);
    const TensorId x = p.input("x"), labels = p.input("labels", DType::i32);
    const Initial mean{
        .kind = Initial::Kind::fill, .a = 1.0 / static_cast<double>(samples), .b = 0, .table = {}};
    const TensorId weights = p.program.persistent("weights", {{samples}, DType::f32}, Role::constant, mean);
    const Initial unit{.kind = Initial::Kind::fill, .a = 1, .b = 0, .table = {}};
    const TensorId one = p.program.persistent("one", {{1}, DType::f32}, Role::constant, unit);
    const bool mixed = fixture.has(name + "/shares");
    std::vector<TensorId> inputs{x, labels, weights, mixed ? p.input("others", DType::i32) : kNone,
                                 mixed ? p.input("shares") : kNone};
    const auto loss = p.build.emit_all(std::make_shared<CrossEntropy>(smoothing), inputs);
    p.output("y", loss[CrossEntropy::kLoss]);
    inputs.insert(inputs.begin(), one);
    inputs.insert(inputs.end(), {loss[CrossEntropy::kLargest], loss[CrossEntropy::kExpSum]});
    p.output("dx", p.build.emit<CrossEntropyBackward>(inputs, smoothing));
    p.check();
  });
}

}  // namespace

TEST_CASE("cross entropy computes what PyTorch computes") {
  check_cross_entropy(Fixture("operations"), "cross_entropy");
}

TEST_CASE("cross entropy of mixed labels and of label maps computes what PyTorch computes") {
  const Fixture fixture("targets");
  check_cross_entropy(fixture, "mixed");
  check_cross_entropy(fixture, "pixels");
}

namespace {

struct Rule {
  std::string name;
  double lr;
  std::shared_ptr<const OptimizerStep> op;
};

/// One update of w by a gradient from the test, with all moments that the rule has.
Program update_program(const Rule& rule, const Shape& shape) {
  Program program;
  program.entries.emplace_back(kFixtureEntry);
  Builder build(program, program.entries[0]);
  auto state = [&](const std::string& name, Role role) {
    return program.persistent(name, {shape, DType::f32}, role, {});
  };
  const TensorId w = state("w", Role::parameter), g = program.input("g", {shape, DType::f32});
  const TensorId lr = program.input("lr", {{1}, DType::f32});
  std::vector<TensorId> changed = {w}, inputs = {lr, kNone, kNone, kNone, w, g};
  for (size_t i = 0; i < rule.op->moments; ++i) {
    changed.push_back(state("moment" + std::to_string(i), Role::optimizer));
    inputs.push_back(changed.back());
  }
  const TensorId count = program.persistent("count", {{1}, DType::i32}, Role::state, {});
  inputs[OptimizerStep::kUpdates] = count;
  const std::vector<TensorId> updated = build.emit_all(rule.op, inputs);
  for (size_t i = 0; i < changed.size(); ++i) build.assign(changed[i], updated[i]);
  build.assign(count, build.emit<Increment>({count}));
  return program;
}

}  // namespace

TEST_CASE("optimisers move weights as PyTorch's do, over five steps") {
  const Fixture fixture("optimizers");
  auto a_step = [](const update::Rule& rule, double decay) {
    return std::make_shared<OptimizerStep>(
        rule, std::vector<ParameterSettings>{{.weight_decay = decay, .adapts = true}});
  };
  auto lars = [](double momentum, bool nesterov, double trust_coefficient) {
    update::Lars rule;
    rule.momentum = momentum;
    rule.nesterov = nesterov;
    rule.trust_coefficient = trust_coefficient;
    return rule;
  };
  update::Adam adam;
  adam.beta1 = 0.5, adam.beta2 = 0.9, adam.eps = 1e-3;
  update::AdamW adamw;
  adamw.beta1 = 0.5, adamw.beta2 = 0.9, adamw.eps = 1e-3;
  update::Lion lion;
  lion.beta1 = 0.5, lion.beta2 = 0.8;
  const std::vector<Rule> rules = {
      {"sgd.0", 0.1, a_step(update::Sgd{}, 0)},
      {"sgd.1", 0.05, a_step(update::Sgd{.momentum = 0.9}, 0.1)},
      {"sgd.2", 0.05, a_step(update::Sgd{.momentum = 0.8, .nesterov = true}, 0.01)},
      {"adam.0", 0.01, a_step(update::Adam{}, 0)},
      {"adam.1", 0.1, a_step(adam, 0.2)},
      {"lars.0", 0.5, a_step(lars(0.9, false, 0.02), 1e-2)},
      {"lars.1", 0.5, a_step(lars(0.8, true, 0.05), 0)},
      {"adamw.0", 0.01, a_step(update::AdamW{}, 0.01)},
      {"adamw.1", 0.1, a_step(adamw, 0.2)},
      {"lion.0", 0.01, a_step(update::Lion{}, 0)},
      {"lion.1", 0.05, a_step(lion, 0.1)},
  };
  for (const Rule& rule : rules) {
    const Shape shape = fixture.shape(rule.name + "/w");
    const auto size = static_cast<std::ptrdiff_t>(numel(shape));
    const std::vector<float> gradients = fixture.values(rule.name + "/gradients");
    const std::vector<double> weights = fixture.doubles(rule.name + "/weights");
    for (const Side& side : sides()) {
      Session session(update_program(rule, shape), side.backend);
      session.set({{"w", fixture.values(rule.name + "/w")}, {"lr", {static_cast<float>(rule.lr)}}});
      for (std::ptrdiff_t step = 0; step < 5; ++step) {
        session.set("g", {gradients.begin() + step * size, gradients.begin() + (step + 1) * size});
        session.run(kFixtureEntry);
        INFO(rule.name << ", step " << step << " on " << side.backend.planner->name());
        const std::vector<double> expected(weights.begin() + step * size,
                                           weights.begin() + (step + 1) * size);
        CHECK(relative_error(session.persistent("w"), expected) < 1e-6);
      }
    }
  }
}

TEST_CASE("gradients are clipped as by PyTorch's clip_grad_value_") {
  const Fixture fixture("optimizers");
  FixtureProgram p(fixture, "clip_value");
  const double limit = fixture.values("clip_value/limit")[0];
  const elementwise::HardTanh clip{.min_value = -limit, .max_value = limit};
  p.output("clipped", p.build.emit<Unary>({p.input("g")}, elementwise::Function(clip)));
  p.check();
}

TEST_CASE("gradients are clipped as by PyTorch's clip_grad_norm_") {
  const Fixture fixture("optimizers");
  for_each_case(fixture, "clip", "g0", [&](const std::string& name) {
    for (const Side& side : sides()) {
      FixtureProgram p(fixture, name);
      const std::vector<TensorId> gradients{p.input("g0"), p.input("g1")};
      const double limit = fixture.values(name + "/max_norm")[0];
      const auto clipped = p.build.emit_all(std::make_shared<ClipByNorm>(limit), gradients);
      p.output("scale", clipped[0]);
      p.output("norm", clipped[1]);
      Session session(p.program, side.backend);
      for (const char* gradient : {"g0", "g1"}) session.set(gradient, fixture.values(name + "/" + gradient));
      session.run(kFixtureEntry);
      INFO(name << " on " << side.backend.planner->name());
      CHECK(relative_error(session.output(kFixtureEntry, "norm"), fixture.doubles(name + "/norm")) < 1e-6);
      const double scale = session.output(kFixtureEntry, "scale")[0];
      for (int i : {0, 1}) {
        std::vector<double> scaled = fixture.doubles(fmt::format("{}/g{}", name, i));
        for (double& value : scaled) value *= scale;
        CHECK(relative_error(scaled, fixture.doubles(fmt::format("{}/clipped{}", name, i))) < 1e-6);
      }
    }
  });
}
