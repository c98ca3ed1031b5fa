// SPDX-License-Identifier: Apache-2.0
#include "core/sweep/sweep_plan.h"

#include "tests/catch.h"

#include "tests/storage/scratch_directory.h"
#include "tests/sweep/plans.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::plan_of;
using test::refusal_of;
using Strings = std::vector<std::string>;

std::string with_parameter(const std::string& parameter) {
  return "method: random, trials: 9, metric: loss, parameters: [" + parameter + "]";
}

}  // namespace

TEST_CASE("a grid has the recipe as written, what is to be tried, and every combination") {
  const SweepPlan plan = plan_of(
      "method: grid, metric: loss, try: [{optimizer.lr: 0.3}], parameters: ["
      "{log_uniform: {key: optimizer.lr, from: 0.01, to: 1, points: 3}}, "
      "{choice: {key: optimizer.name, values: [sgd, adamw]}}, "
      "{uniform: {key: optimizer.momentum, from: 0, to: 0.5, points: 2, when: {optimizer.name: sgd}}}]");
  REQUIRE(plan.trials() == 2 + 3 * (2 + 1));
  CHECK(plan.columns() == Strings{"optimizer.lr", "optimizer.name", "optimizer.momentum"});
  CHECK(plan.setting(0, {}, {}).overrides.empty());
  CHECK(plan.setting(0, {}, {}).texts == Strings{"0.05", "sgd", "0"});
  CHECK(plan.setting(0, {}, {}).values == Setting{0.05, 0, 0});
  CHECK(plan.setting(1, {}, {}).overrides == Strings{"optimizer.lr=0.3"});
  CHECK(plan.setting(2, {}, {}).overrides ==
        Strings{"optimizer.lr=0.01", "optimizer.name=sgd", "optimizer.momentum=0"});
  CHECK(plan.setting(4, {}, {}).overrides == Strings{"optimizer.lr=0.01", "optimizer.name=adamw"});
  CHECK(plan.setting(10, {}, {}).overrides == Strings{"optimizer.lr=1", "optimizer.name=adamw"});
  CHECK(plan.setting(10, {}, {}).texts == Strings{"1", "adamw", ""});
}

TEST_CASE("random settings lie in their ranges, are short numbers, and follow from seed and number") {
  const std::string text = with_parameter(
      "{log_uniform: {key: optimizer.lr, from: 0.001, to: 1}}, "
      "{integer: {key: 'model.layers[1].linear', from: 4, to: 64, logarithmic: true}}, "
      "{choice: {values: [{optimizer.weight_decay: 0, optimizer.momentum: 0}, {optimizer.momentum: 0.9}]}}");
  const SweepPlan plan = plan_of(text), other = plan_of("seed: 1, " + text);
  CHECK(plan.columns()[2] == "optimizer.weight_decay,optimizer.momentum");
  for (int64_t number = 1; number < plan.trials(); ++number) {
    const TrialSetting setting = plan.setting(number, {}, {});
    CHECK(setting.overrides == plan.setting(number, {}, {}).overrides);
    CHECK(setting.overrides != other.setting(number, {}, {}).overrides);
    CHECK(setting.texts[0].size() <= 11);
    REQUIRE(setting.values);
    CHECK(plan.values_of(setting.texts) == setting.values);
    CHECK_NOTHROW(plan.with(setting.overrides));
  }
}

TEST_CASE("what cannot be a sweep is refused, all of it at once") {
  const std::string several = refusal_of(
      with_parameter("{log_uniform: {key: optimizer.lr, from: 0, to: 1}}, "
                     "{uniform: {key: optimizer.momentum, from: 0.5, to: 0.5}}, "
                     "{integer: {key: training.global_batch_size, from: 4, to: 8, when: {optimizer.lr: 1}}}, "
                     "{choice: {values: [{}]}}"));
  for (const char* part : {"a logarithmic range begins above 0, got 0", "must be above from, 0.5, got 0.5",
                           "optimizer.lr is not a choice among the parameters before this one",
                           "without key each value is a map of keys and their values"})
    CHECK_THAT(several, ContainsSubstring(part));
  const std::string values = refusal_of(with_parameter(
      "{uniform: {key: optimizer.rate, from: 0, to: 1}}, {uniform: {key: optimizer.lr, from: -1, to: 1}}, "
      "{choice: {key: optimizer.name, values: [sgd, adamm]}}"));
  for (const char* part :
       {"unknown key 'rate'", "must be at least 0, got -1", "did you mean 'adam'", "swept.yaml:10:"})
    CHECK_THAT(values, ContainsSubstring(part));
  // A key that only some values of another allow exists under its condition.
  CHECK_NOTHROW(plan_of(
      with_parameter("{choice: {key: optimizer.name, values: [adamw, sgd]}}, "
                     "{uniform: {key: optimizer.momentum, from: 0, to: 0.9, when: {optimizer.name: sgd}}}")));
}

TEST_CASE("a key may vary twice only for different values of a choice") {
  const std::string name = "{choice: {key: optimizer.name, values: [sgd, adamw, adam]}}, ";
  const auto both = [&](const std::string& first, const std::string& second) {
    return with_parameter(name + "{uniform: {key: optimizer.lr, from: 0, to: 1" + first +
                          "}}, {uniform: {key: optimizer.lr, from: 0, to: 2" + second + "}}");
  };
  const std::string of_sgd = ", when: {optimizer.name: sgd}",
                    of_adam = ", when: {optimizer.name: [adamw, adam]}";
  const SweepPlan plan = plan_of(both(of_sgd, of_adam));
  CHECK(plan.columns() == Strings{"optimizer.name", "optimizer.lr"});
  for (const auto& [first, second] :
       {std::pair{of_sgd, of_sgd}, {of_sgd, std::string()}, {std::string(), std::string()}})
    CHECK_THAT(refusal_of(both(first, second)), ContainsSubstring("optimizer.lr is varied twice"));
}

TEST_CASE("a sweep needs validation samples") {
  std::string text = test::swept_recipe(
      "trials: 3, metric: loss, parameters: [{uniform: {key: optimizer.lr, from: 0, to: 1}}]");
  text.replace(text.find("40}"), 3, "40}, val: null");
  CHECK_THAT(test::error_text(ExitCode::recipe, [&] { SweepPlan({.path = "r.yaml", .text = text}, {}); }),
             ContainsSubstring("needs validation samples"));
}

TEST_CASE("metric, number of trials, rungs, repeats and directories are checked") {
  const std::string lr = "parameters: [{uniform: {key: optimizer.lr, from: 0, to: 1}}]";
  CHECK_THAT(refusal_of("trials: 3, metric: top9, " + lr),
             ContainsSubstring("'top9' is not a metric of this"));
  CHECK_THAT(refusal_of("method: random, " + lr), ContainsSubstring("missing key 'trials'"));
  CHECK_THAT(refusal_of("method: grid, trials: 9, " + lr),
             ContainsSubstring("must be at most 6: 5 in the grid"));
  CHECK_THAT(refusal_of("trials: 3, halving: {first: 1ep}, " + lr), ContainsSubstring("in the same unit"));
  CHECK_THAT(refusal_of("trials: 3, halving: {first: 90ba}, " + lr),
             ContainsSubstring("must be shorter than training.max_duration, 90ba"));
  CHECK_THAT(refusal_of("trials: 3, repeat: {key: run.seed}, " + lr),
             ContainsSubstring("needs both key and values"));
  CHECK_THAT(refusal_of("trials: 3, repeat: {key: run.sead, values: [1]}, " + lr),
             ContainsSubstring("unknown key 'sead'"));
  CHECK_THAT(refusal_of("trials: 3, try: [{optimizer.lr: -2}], " + lr),
             ContainsSubstring("must be at least 0, got -2"));
  CHECK_THAT(refusal_of("trials: 3"), ContainsSubstring("missing key 'parameters'"));
  CHECK_THAT(refusal_of("trials: 2, try: [{optimizer.lr: 2}, {optimizer.lr: 3}], " + lr),
             ContainsSubstring("must be at least 3: the recipe as written and 2 in sweep.try, got 2"));
  CHECK_THAT(refusal_of("method: random, trials: 3, know: [x], " + lr),
             ContainsSubstring("only method tpe learns"));
  CHECK_THAT(
      refusal_of("method: grid, parameters: [{uniform: {key: optimizer.lr, from: 0, to: 1, points: 10000}}, "
                 "{uniform: {key: optimizer.momentum, from: 0, to: 0.5, points: 9}}]"),
      ContainsSubstring("the grid has 90000 settings; give at most 10000"));
  for (const char* own : {"device.threads", "device.memory", "run.output_dir", "run.stop_after"})
    CHECK_THAT(refusal_of("trials: 3, parameters: [{choice: {key: " + std::string(own) + ", values: [1]}}]"),
               ContainsSubstring(std::string(own) + " is set by the sweep itself"));
  const SweepPlan plan = plan_of("trials: 3, halving: {first: 10ba, factor: 2}, " + lr);
  CHECK(plan.rungs().size() == 4);  // 10, 20, 40, 80
  CHECK(plan.metric() == "top1");
  CHECK(plan.maximizes());
}

}  // namespace trainer
