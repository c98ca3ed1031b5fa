// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <limits>
#include <optional>

#include "core/graph/ops/loss_scale.h"
#include "core/graph/ops/optimizer_steps.h"
#include "tests/cuda/cases.h"
#include "tests/ops/rules.h"

namespace trainer {
namespace {

/// Below, at and beyond the size of one block's part.
const std::vector<int64_t> kSizes = {1, 31, 8192, 9001};

struct StepInputs {
  bool scaled = false, skipped = false;
};

/// Each parameter's tensors as inputs, and all results of the step as outputs.
void draft_step(Sketch& sketch, const std::shared_ptr<OptimizerStep>& op, const std::vector<int64_t>& sizes,
                StepInputs with) {
  const TensorId lr = sketch.input("lr", {1}, Values::positive), updates = sketch.integers("updates", 1, 9);
  const TensorId scale = with.scaled ? sketch.input("scale", {1}, Values::positive) : kNone;
  const TensorId skip = sketch.input("skip", {1});
  sketch.values["skip"][0] = with.skipped ? 1 : 0;
  std::vector<TensorId> inputs{lr, updates, scale, skip};
  for (size_t p = 0; p < sizes.size(); ++p) {
    for (size_t i = 0; i < 2 + op->moments; ++i) {
      const Values kind = i < 2 ? Values::normal : Values::positive;
      inputs.push_back(sketch.input(fmt::format("{}.{}", p, i), {sizes[p]}, kind));
    }
  }
  const std::vector<TensorId> outputs = sketch.build().emit_all(op, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) sketch.output(fmt::format("new {}", i), outputs[i]);
  sketch.loss(sketch.parameter("p", {3}));
}

/// The first parameter does not decay; the last has its own rate, and the rule does not adapt to it.
std::shared_ptr<OptimizerStep> step(const update::Rule& rule, size_t parameters) {
  const bool adapts = std::visit([](const auto& one) { return one.kAdapts; }, rule);
  std::vector<ParameterSettings> settings(parameters, {.weight_decay = 0.1, .adapts = adapts});
  settings.front().weight_decay = 0;
  settings.back() = {.weight_decay = 0.1, .lr_factor = 0.5};
  return std::make_shared<OptimizerStep>(rule, settings);
}

void add_step(std::vector<KernelCase>& cases, const std::string& name, std::shared_ptr<OptimizerStep> op,
              const std::vector<int64_t>& sizes, StepInputs with = {}) {
  cases.push_back({name, [=](Sketch& sketch) { draft_step(sketch, op, sizes, with); }, false});
}

/// Gradients, one of which may be infinite; the scale and its counters before a step that increases it.
void add_loss_scaling(std::vector<KernelCase>& cases) {
  for (const auto limit : {std::optional<double>(), std::optional<double>(0.5)}) {
    cases.push_back({fmt::format("unscale {}", limit.value_or(0)),
                     [=](Sketch& sketch) {
                       std::vector<TensorId> inputs{sketch.input("scale", {1}, Values::positive)};
                       for (int64_t size : kSizes)
                         inputs.push_back(sketch.input(fmt::format("g{}", size), {size}));
                       const auto y = sketch.build().emit_all(std::make_shared<Unscale>(limit), inputs);
                       sketch.output("factor", y[0]);
                       sketch.output("found", y[1]);
                       if (limit) sketch.output("norm", y[2]);
                       sketch.output("product", sketch.build().emit<MultiplyBy>({inputs[3], y[0]}));
                       sketch.loss(sketch.parameter("p", {3}));
                     },
                     false});
  }
  cases.push_back(
      {"unscale finds what is not finite",
       [](Sketch& sketch) {
         const TensorId scale = sketch.input("scale", {1}, Values::positive), g = sketch.input("g", {9001});
         sketch.values["g"][8999] = std::numeric_limits<float>::infinity();
         const auto y = sketch.build().emit_all(std::make_shared<Unscale>(std::nullopt), {scale, g});
         sketch.output("found", y[1]);
         sketch.loss(sketch.parameter("p", {3}));
       },
       false});
  struct Update {
    float found = 0, held = 0, scale = 0;  // a scale of 0: drawn
    bool may_hold = false;
  };
  for (const Update& now : {Update{}, Update{.found = 1}, Update{.found = 1, .scale = 1.5f},
                            Update{.found = 1, .held = 1, .may_hold = true},
                            Update{.held = 1, .may_hold = true}, Update{.found = 1, .may_hold = true}}) {
    cases.push_back({fmt::format("update_loss_scale {} {} {}", now.found, now.held, now.scale),
                     [=](Sketch& sketch) {
                       const TensorId scale = sketch.input("scale", {1}, Values::positive);
                       const TensorId good = sketch.integers("good", 1, 1),
                                      skipped = sketch.integers("skipped", 1, 9);
                       sketch.values["good"][0] = 1;
                       if (now.scale > 0) sketch.values["scale"][0] = now.scale;
                       const TensorId seen = sketch.input("found", {1});
                       sketch.values["found"][0] = now.found;
                       std::vector<TensorId> inputs{scale, good, skipped, seen};
                       if (now.may_hold) {
                         inputs.push_back(sketch.input("held", {1}));
                         sketch.values["held"][0] = now.held;
                       }
                       const LossScaling scaling{.smallest = 0.7, .interval = 2};
                       const auto y =
                           sketch.build().emit_all(std::make_shared<UpdateLossScale>(scaling), inputs);
                       for (size_t i = 0; i < 3; ++i) sketch.output(fmt::format("next {}", i), y[i]);
                       sketch.loss(sketch.parameter("p", {3}));
                     },
                     false});
  }
}

}  // namespace

void add_optimizer_cases(std::vector<KernelCase>& cases) {
  const update::Sgd heavy{.momentum = 0.9};
  update::Lars lars;
  lars.trust_coefficient = 0.02;
  update::Lars without_moment = lars;
  without_moment.momentum = 0;
  for_each_rule([&](const auto& rule) {
    add_step(cases, rule.kName, step(rule, kSizes.size()), kSizes);
    add_step(cases, std::string(rule.kName) + ", scaled", step(rule, kSizes.size()), kSizes,
             {.scaled = true});
    add_step(cases, std::string(rule.kName) + ", skipped", step(rule, kSizes.size()), kSizes,
             {.skipped = true});
  });
  add_step(cases, "sgd, momentum, scaled", step(heavy, kSizes.size()), kSizes, {.scaled = true});
  add_step(cases, "sgd, nesterov", step(update::Sgd{.momentum = 0.5, .nesterov = true}, kSizes.size()),
           kSizes);
  add_step(cases, "sgd, momentum, skipped", step(heavy, kSizes.size()), kSizes, {.skipped = true});
  for (const bool centered : {false, true}) {
    const update::RmsProp rmsprop{.momentum = 0.5, .centered = centered};
    add_step(cases, centered ? "rmsprop, momentum, centered" : "rmsprop, momentum",
             step(rmsprop, kSizes.size()), kSizes, {.scaled = true});
  }
  add_step(cases, "lars, long steps", step(lars, kSizes.size()), kSizes, {.scaled = true});
  // More than one kernel's arguments can hold.
  const std::vector<int64_t> many(330, 3);
  add_step(cases, "sgd, many parameters", step(heavy, many.size()), many);
  add_step(cases, "lars, many parameters", step(without_moment, many.size()), many);
  for (const ClipByNorm& clip : {ClipByNorm(0.5), ClipByNorm(1e6), ClipByNorm(1e6, 0.5, true)}) {
    cases.push_back({fmt::format("clip_by_norm {} {}", clip.max_norm, clip.eps),
                     [=](Sketch& sketch) {
                       std::vector<TensorId> gradients;
                       for (int64_t size : kSizes)
                         gradients.push_back(sketch.input(fmt::format("g{}", size), {size}));
                       const auto y = sketch.build().emit_all(std::make_shared<ClipByNorm>(clip), gradients);
                       sketch.output("scale", y[0]);
                       sketch.output("norm", y[1]);
                       sketch.loss(sketch.parameter("p", {3}));
                     },
                     false});
  }
  add_loss_scaling(cases);
  cases.push_back({"table_lookup and increment",
                   [](Sketch& sketch) {
                     const TensorId table = sketch.input("table", {5});
                     const TensorId inside = sketch.integers("inside", 1, 5),
                                    beyond = sketch.integers("beyond", 1, 1);
                     sketch.values["beyond"][0] = 7;
                     sketch.output("inside", sketch.build().emit<TableLookup>({table, inside}));
                     sketch.output("beyond", sketch.build().emit<TableLookup>({table, beyond}));
                     sketch.output("next", sketch.build().emit<Increment>({beyond}));
                     const TensorId skip = sketch.input("skip", {1}), go = sketch.input("go", {1});
                     sketch.values["go"][0] = 0;
                     sketch.output("same", sketch.build().emit<Increment>({beyond, skip}));
                     sketch.output("counted", sketch.build().emit<Increment>({beyond, go}));
                     sketch.loss(sketch.parameter("p", {3}));
                   },
                   false});
}

}  // namespace trainer
