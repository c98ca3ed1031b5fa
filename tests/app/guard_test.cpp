// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

const char* const kGuardedRecipe = R"(version: 1
run: {name: guarded}
model:
  input: [1, 12, 12]
  layers:
    - conv2d: {out_channels: 8, kernel_size: 3, name: conv, bias: false}
    - batch_norm: {name: norm}
    - relu
    - max_pool2d: 2
    - flatten
    - dropout: 0.25
    - linear: {out_features: 5, name: fc}
data: {format: synthetic, synthetic: {train_samples: 640, val_samples: 130}}
training: {max_duration: 3ep, global_batch_size: 32, ema: {decay: 0.9}}
optimizer: {name: sgd, lr: 0.05, momentum: 0.9}
validation: {interval: 1ep}
logging: {interval: 7ba}
)";

Outcome train_with_guards(const Workspace& workspace, const std::string& name,
                          std::vector<std::string> overrides) {
  workspace.write("guarded.yaml", kGuardedRecipe);
  overrides.insert(overrides.begin(), {"--config", "guarded.yaml", "run.output_dir=runs/" + name});
  return run_trainer(overrides, workspace.path());
}

/// The lines of metrics.jsonl of this split.
std::vector<nlohmann::json> records_of(const Workspace& workspace, const std::string& name,
                                       const char* split) {
  std::vector<nlohmann::json> found;
  std::istringstream lines(workspace.read("runs/" + name + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record["split"] == split) found.push_back(record);
  }
  return found;
}

/// Two convolutions and two linear layers with relu, in the manner of configs/fashion_mnist_cnn.yaml.
const char* const kClampedRecipe = R"(version: 1
run: {name: clamped}
model:
  input: [1, 16, 16]
  layers:
    - conv2d: {out_channels: 16, kernel_size: 3, name: conv1}
    - relu
    - conv2d: {out_channels: 16, kernel_size: 3, name: conv2}
    - relu
    - max_pool2d: 2
    - flatten
    - linear: {out_features: 32, name: fc1}
    - relu
    - linear: {out_features: 5, name: fc2}
data: {format: synthetic, synthetic: {train_samples: 640}, val: null}
training: {max_duration: 60ba, global_batch_size: 32}
optimizer: {name: sgd, lr: 1.0e+10, momentum: 0.9}
validation: {metrics: []}
)";

}  // namespace

TEST_CASE("a run whose weights become NaN ends with an error, also where a relu follows") {
  const Workspace workspace;
  workspace.write("clamped.yaml", kClampedRecipe);
  for (const char* winograd : {"auto", "off"}) {
    INFO(winograd);
    const Outcome outcome =
        run_trainer({"--config", "clamped.yaml", std::string("runtime.winograd=") + winograd,
                     std::string("run.output_dir=runs/") + winograd},
                    workspace.path());
    INFO(outcome.errors);
    CHECK(outcome.code == 70);
    CHECK(outcome.errors.find("first non-finite value: ") != std::string::npos);
  }
}

TEST_CASE("a loss that is no number ends the run, and the first layer whose output is none is named") {
  const Workspace workspace;
  for (const char* rows : {"32", "8"}) {
    const Outcome outcome =
        train_with_guards(workspace, fmt::format("of {}", rows),
                          {"optimizer.lr=1e38", std::string("training.micro_batch_size=") + rows});
    INFO(outcome.errors);
    CHECK(outcome.code == 70);
    CHECK(outcome.errors.find("trainer: error: the loss became ") != std::string::npos);
    CHECK(outcome.errors.find(" at step 2; lower optimizer.lr") != std::string::npos);
    CHECK(outcome.errors.find("; first non-finite value: the output of model.layers[") != std::string::npos);
    const auto events = records_of(workspace, fmt::format("of {}", rows), "guard");
    REQUIRE(events.size() == 1);
    CHECK(events[0]["event"] == "stop");
    CHECK(events[0]["reason"] == "loss");
    CHECK(events[0]["step"] == 2);
    CHECK(events[0]["loss"].is_null());
  }
}

TEST_CASE("steps are skipped up to guards.max_skips in a row, each with a line of metrics") {
  const Workspace workspace;
  const Outcome outcome =
      train_with_guards(workspace, "a", {"optimizer.lr=1e38", "guards.nonfinite=skip", "guards.max_skips=3"});
  INFO(outcome.errors);
  CHECK(outcome.code == 70);
  CHECK(outcome.errors.find("after 3 skipped steps in a row, and guards.max_skips allows 3") !=
        std::string::npos);
  const auto events = records_of(workspace, "a", "guard");
  REQUIRE(events.size() == 4);
  for (size_t i = 0; i < events.size(); ++i) {
    CHECK(events[i]["event"] == (i == 3 ? "stop" : "skip"));
    CHECK(events[i]["in_a_row"] == i + 1);
    CHECK(events[i]["updates"] == 1);
    CHECK(events[i]["step"] == i + 2);
    CHECK(events[i]["skipped"] == i + 1);
  }
}

TEST_CASE("updates go on from those of the checkpoint, whatever becomes of the guards") {
  const Workspace workspace;
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"logging.interval=1ba", "checkpoint.interval=5ba",
                             "run.allow_changes=[training.max_duration, guards]"});
    const Outcome outcome = train_with_guards(workspace, "a", std::move(more));
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    return records_of(workspace, "a", "train").back();
  };
  CHECK(train({"training.max_duration=10ba", "guards.skip_steps=[3, 4, 7]"})["updates"] == 7);
  const auto same = train({"training.max_duration=12ba", "guards.skip_steps=[3, 4, 7]"});
  CHECK(same["updates"] == 9);
  CHECK(same["skipped"] == 3);
  const auto without = train({"training.max_duration=14ba"});
  CHECK(without["updates"] == 11);
  CHECK(without["skipped"] == 3);
  const auto again = train({"training.max_duration=16ba", "guards.skip_steps=[15]"});
  CHECK(again["updates"] == 12);
  CHECK(again["skipped"] == 4);
}

TEST_CASE("a run that skips its spikes has the bits of one that is told to skip these steps") {
  const Workspace workspace;
  std::set<std::string> reasons;
  for (const char* seed : {"1", "2"}) {
    for (const char* rows : {"32", "16"}) {
      const std::vector<std::string> common = {std::string("run.seed=") + seed,
                                               std::string("training.micro_batch_size=") + rows};
      const std::string name = fmt::format("{}-{}", seed, rows);
      auto with = [&](std::vector<std::string> more) {
        more.insert(more.end(), common.begin(), common.end());
        return more;
      };
      const Outcome met = train_with_guards(workspace, "met" + name,
                                            with({"guards.spike=skip", "guards.gradient_spike=skip",
                                                  "guards.spike_sigmas=1", "guards.spike_window=8"}));
      INFO(met.errors);
      REQUIRE(met.code == 0);
      std::string steps;
      for (const auto& event : records_of(workspace, "met" + name, "guard")) {
        reasons.insert(event["reason"].get<std::string>());
        CHECK((event["reason"] == "gradient_spike") == event.contains("grad_norm"));
        steps += fmt::format("{}{}", steps.empty() ? "" : ", ", event["step"].get<int>());
      }
      REQUIRE(!steps.empty());
      INFO(steps);
      const Outcome told =
          train_with_guards(workspace, "told" + name, with({"guards.skip_steps=[" + steps + "]"}));
      REQUIRE(told.code == 0);
      const Outcome plain = train_with_guards(workspace, "plain" + name, with({}));
      REQUIRE(plain.code == 0);
      for (const char* file : {"model.safetensors", "model_ema.safetensors"}) {
        const std::string met_file = workspace.read("runs/met" + name + "/" + file);
        CHECK(met_file == workspace.read("runs/told" + name + "/" + file));
        CHECK(met_file != workspace.read("runs/plain" + name + "/" + file));
      }
      const auto of_met = records_of(workspace, "met" + name, "train"),
                 of_told = records_of(workspace, "told" + name, "train");
      REQUIRE(of_met.size() == of_told.size());
      for (size_t i = 0; i < of_met.size(); ++i) {
        for (const char* key : {"step", "updates", "loss", "lr", "skipped"})
          CHECK(of_met[i][key] == of_told[i][key]);
        CHECK(of_met[i].contains("grad_norm"));
        CHECK_FALSE(of_told[i].contains("grad_norm"));
      }
    }
  }
  CHECK(reasons == std::set<std::string>{"gradient_spike", "spike"});
}

TEST_CASE("a run that goes back to a checkpoint has the bits of one that is told to skip what led there") {
  const Workspace workspace;
  const std::vector<std::string> spikes = {
      "guards.spike=rollback",   "guards.spike_sigmas=1.5",  "guards.spike_window=8", "guards.max_skips=0",
      "guards.max_rollbacks=50", "checkpoint.keep_best=none"};  // saves at the interval alone
  for (const char* seed : {"run.seed=1", "run.seed=3"}) {
    std::vector<std::string> line = spikes;
    line.insert(line.end(), {seed, "checkpoint.interval=6ba"});
    const std::string name = seed;
    const Outcome back = train_with_guards(workspace, "back" + name, line);
    INFO(back.errors);
    REQUIRE(back.code == 0);
    std::string steps;
    for (const auto& event : records_of(workspace, "back" + name, "guard")) {
      if (event["event"] != "roll_back") continue;
      CHECK(event["reason"] == "spike");
      CHECK(event["step"].get<int>() % 6 == 1);  // the first after a checkpoint
      for (int step = event["step"]; step <= event["failed_step"].get<int>(); ++step)
        steps += fmt::format("{}{}", steps.empty() ? "" : ", ", step);
    }
    REQUIRE(!steps.empty());
    INFO(steps);
    const Outcome told =
        train_with_guards(workspace, "told" + name, {seed, "guards.skip_steps=[" + steps + "]"});
    REQUIRE(told.code == 0);
    for (const char* file : {"model.safetensors", "model_ema.safetensors"})
      CHECK(workspace.read("runs/back" + name + "/" + file) ==
            workspace.read("runs/told" + name + "/" + file));
    const auto of_back = records_of(workspace, "back" + name, "train"),
               of_told = records_of(workspace, "told" + name, "train");
    REQUIRE(of_back.size() == of_told.size());
    for (size_t i = 0; i < of_back.size(); ++i) {
      for (const char* key : {"step", "updates", "loss", "lr"}) CHECK(of_back[i][key] == of_told[i][key]);
    }
    std::vector<std::string> longer = line;
    longer.insert(longer.end(), {"training.max_duration=4ep", "guards.spike_sigmas=3",
                                 "run.allow_changes=[training.max_duration, guards]"});
    const Outcome changed = train_with_guards(workspace, "back" + name, longer);
    CHECK(changed.code == 78);
    CHECK(changed.errors.find("guards can no longer change") != std::string::npos);
    line.push_back("guards.max_rollbacks=0");
    const Outcome none = train_with_guards(workspace, "none" + name, line);
    CHECK(none.code == 70);
  }
  const Outcome early = train_with_guards(
      workspace, "early", {"guards.nonfinite=rollback", "optimizer.lr=1e38", "guards.max_skips=0"});
  CHECK(early.code == 70);
  CHECK(early.errors.find("there is no checkpoint yet") != std::string::npos);
}

TEST_CASE("a guard that meets nothing leaves the run's bits") {
  const Workspace workspace;
  REQUIRE(train_with_guards(workspace, "plain", {}).code == 0);
  REQUIRE(
      train_with_guards(workspace, "guarded", {"guards={nonfinite: skip, spike: skip, spike_sigmas: 1000}"})
          .code == 0);
  for (const char* file : {"model.safetensors", "model_ema.safetensors"})
    CHECK(workspace.read(std::string("runs/plain/") + file) ==
          workspace.read(std::string("runs/guarded/") + file));
  CHECK(records_of(workspace, "guarded", "guard").empty());
}

TEST_CASE("a run goes on with other guards than before where that is allowed") {
  const Workspace workspace;
  const std::vector<std::string> spikes = {"guards.spike=skip", "guards.spike_sigmas=6",
                                           "guards.spike_window=8"},
                                 told = {"guards.skip_steps=[33, 35]"};
  std::vector<std::string> wider = spikes;
  wider.insert(wider.end(), {"guards.spike_window=12", told[0]});
  const std::vector<std::vector<std::string>> guards = {{}, spikes, wider, told};
  for (size_t i = 0; i < guards.size(); ++i) {
    const std::string name = fmt::format("run{}", i);
    std::vector<std::string> first = guards[i], then = guards[(i + 1) % guards.size()];
    first.emplace_back("training.max_duration=30ba");
    then.emplace_back("training.max_duration=40ba");
    REQUIRE(train_with_guards(workspace, name, first).code == 0);
    CHECK(train_with_guards(workspace, name, then).code == 78);
    then.emplace_back("run.allow_changes=[guards, training.max_duration]");
    const Outcome outcome = train_with_guards(workspace, name, then);
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    CHECK(outcome.errors.find("resuming after step 30") != std::string::npos);
    std::vector<int> skipped;
    for (const auto& event : records_of(workspace, name, "guard")) skipped.push_back(event["step"]);
    const bool are_told = std::find(then.begin(), then.end(), told[0]) != then.end();
    CHECK(skipped == (are_told ? std::vector{33, 35} : std::vector<int>()));
  }
}

TEST_CASE("a spike ends the run where the recipe says so") {
  const Workspace workspace;
  const Outcome outcome = train_with_guards(
      workspace, "a",
      {"guards.spike=stop", "guards.spike_sigmas=0.01", "guards.spike_window=4", "run.seed=1"});
  INFO(outcome.errors);
  CHECK(outcome.code == 70);
  CHECK(outcome.errors.find("the loss jumped to ") != std::string::npos);
  CHECK(records_of(workspace, "a", "guard").back()["event"] == "stop");
}

TEST_CASE(
    "with guards the statistics wait for their verdict, and by default the program is as ever but for one "
    "node") {
  const Workspace workspace;
  workspace.write("guarded.yaml", kGuardedRecipe);
  auto program = [&](const std::vector<std::string>& overrides) {
    std::vector<std::string> line = {"plan", "--config", "guarded.yaml", "--dump", "program"};
    line.insert(line.end(), overrides.begin(), overrides.end());
    const Outcome outcome = run_trainer(line, workspace.path());
    INFO(outcome.errors);
    CHECK(outcome.code == 0);
    return outcome.output;
  };
  const std::string plain = program({}), guarded = program({"guards.nonfinite=skip"});
  CHECK(plain.find("step_guard(") != std::string::npos);
  CHECK(plain.find("unscale(") == std::string::npos);
  CHECK(plain.find("@guard.") == std::string::npos);
  CHECK(guarded.find("unscale(@one, ") != std::string::npos);
  CHECK(guarded.find("output guard_reason = ") != std::string::npos);
  // The statistic is averaged before the update in the one, after the guard in the other.
  CHECK(plain.find("lerp(@norm.running_mean") < plain.find("step_guard("));
  CHECK(guarded.find("lerp(@norm.running_mean") > guarded.find("step_guard("));
  const std::string split = program({"guards.nonfinite=skip", "training.micro_batch_size=8"});
  CHECK(split.find("keep(@norm.running_mean.before, @norm.running_mean, ") != std::string::npos);
  CHECK(split.find("assign(@norm.running_mean.before, @norm.running_mean)") != std::string::npos);
  CHECK(split.find("assign(@guard.loss, ") != std::string::npos);
}

TEST_CASE("a run with other guards than before goes back to what it went on from, too") {
  const Workspace workspace;
  const std::string longer = "training.max_duration=60ba",
                    allowed = "run.allow_changes=[guards, training.max_duration]";
  // The second has a table of steps to skip that is as long as the one after it.
  const std::vector<std::vector<std::string>> earlier = {
      {}, {"guards.skip_steps=[7]", "guards.spike=rollback", "guards.max_rollbacks=50"}};
  for (size_t i = 0; i < earlier.size(); ++i) {
    const std::string back = fmt::format("back{}", i), told = fmt::format("told{}", i);
    std::vector<std::string> first = earlier[i];
    first.emplace_back("training.max_duration=20ba");
    first.emplace_back("checkpoint.keep_best=none");  // its checkpoint would be the later one
    REQUIRE(train_with_guards(workspace, back, first).code == 0);
    REQUIRE(train_with_guards(workspace, told, first).code == 0);
    const Outcome outcome = train_with_guards(
        workspace, back,
        {longer, allowed, "checkpoint.keep_best=none", "guards.spike=rollback", "guards.spike_sigmas=1.5",
         "guards.spike_window=8", "guards.max_skips=0", "guards.max_rollbacks=50", "guards.skip_steps=[59]"});
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    int last = 0;
    for (const auto& event : records_of(workspace, back, "guard")) {
      if (event["event"] != "roll_back") continue;
      CHECK(event["step"] == 21);  // there is no later checkpoint
      last = event["failed_step"];
    }
    REQUIRE(last > 21);
    std::string steps = "59";
    for (int step = 21; step <= last; ++step) steps += fmt::format(", {}", step);
    REQUIRE(train_with_guards(workspace, told, {longer, allowed, "guards.skip_steps=[" + steps + "]"}).code ==
            0);
    CHECK(workspace.read("runs/" + back + "/model.safetensors") ==
          workspace.read("runs/" + told + "/model.safetensors"));
  }
}

}  // namespace trainer
