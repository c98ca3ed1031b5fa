// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "core/storage/checkpoint.h"
#include "tests/app/command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

/// The small recipe, saved every three steps.
class Small {
 public:
  Small() { workspace.write("small.yaml", kSmallRecipe); }

  Outcome run(const std::string& name, const std::string& more, const std::string& before = "") const {
    return run_shell(before +
                         " \"$TRAINER\" --config small.yaml checkpoint.interval=3ba run.output_dir=runs/" +
                         name + " " + more,
                     workspace.path());
  }
  std::string read(const std::string& name) const { return workspace.read("runs/" + name); }
  fs::path path(const std::string& name) const { return workspace.path() / "runs" / name; }

  Workspace workspace;
};

#ifdef TRAINER_FAULTS
/// The process is killed when its `save`th save gets its name.
std::string killed_in(int save) {
  return "LD_PRELOAD=" TRAINER_FAULTS
         " FAULT_PATH=checkpoints/.saving FAULT_CALLS=rename FAULT_ACTION=kill FAULT_AT=" +
         std::to_string(save);
}
#endif

}  // namespace

#ifdef TRAINER_FAULTS
TEST_CASE("a finished run that is extended can be killed on its way") {
  const Small small;
  REQUIRE(small.run("a", "training.max_duration=30ba").code == 0);
  REQUIRE(small.run("b", "training.max_duration=10ba").code == 0);
  const std::string longer = "training.max_duration=30ba 'run.allow_changes=[training.max_duration]'";
  REQUIRE(small.run("b", longer, killed_in(3)).code != 0);
  const Outcome again = small.run("b", longer);
  CHECK(again.code == 0);
  CHECK_THAT(again.errors, ContainsSubstring("resuming after step 15"));
  CHECK(nlohmann::json::parse(small.read("b/summary.json"))["steps"] == 30);
  CHECK(fs::exists(small.path("b/checkpoints/step-00000030")));
  CHECK_THAT(small.run("b", longer).errors, ContainsSubstring("this run is finished"));
}

TEST_CASE("a killed run ends with the bits of one that was not, and leaves nothing half written") {
  const Small small;
  REQUIRE(small.run("a", "validation.interval=4ba checkpoint.keep_best=top1").code == 0);
  const std::string same = "validation.interval=4ba checkpoint.keep_best=top1";
  CHECK(small.run("b", same, killed_in(1)).code != 0);
  CHECK(small.run("b", same, killed_in(3)).code != 0);
  small.workspace.write("runs/b/.metrics.jsonl.tmp-1-0", "left by a killed process");
  REQUIRE(small.run("b", same).code == 0);
  CHECK(small.read("a/model.safetensors") == small.read("b/model.safetensors"));
  CHECK_FALSE(fs::exists(small.path("b/.metrics.jsonl.tmp-1-0")));
  for (const fs::path& saved : list_checkpoints(small.path("a/checkpoints"))) {
    const std::string name = saved.filename().string();
    INFO(name);
    CHECK(small.read("a/checkpoints/" + name + "/optimizer.safetensors") ==
          small.read("b/checkpoints/" + name + "/optimizer.safetensors"));
    const auto state = [&](const std::string& run) {
      auto json = nlohmann::json::parse(small.read(run + "/checkpoints/" + name + "/state.json"));
      return json["progress"].dump() + json["best_step"].dump();
    };
    CHECK(state("a") == state("b"));
  }
}

TEST_CASE(
    "early stop and plateau: a killed run has the rates, the last step and the bits of one that was not") {
  const Small small;
  const std::string same =
      "training.max_duration=200ba validation.interval=4ba logging.interval=1ba training.ema.decay=0.5 "
      "'validation.metrics=[top1, macro_f1]' "
      "'lr_scheduler={name: plateau, metric: ema_macro_f1, factor: 0.5, patience: 0, cooldown: 1}' "
      "'validation.early_stop={metric: macro_f1, patience: 5, min_delta: 0.01}'";
  const Outcome whole = small.run("a", same);
  REQUIRE(whole.code == 0);
  CHECK_THAT(whole.errors,
             ContainsSubstring("early stop after step ") && ContainsSubstring("learning rate times 0.5"));
  CHECK(small.run("b", same, killed_in(1)).code != 0);
  CHECK(small.run("b", same, killed_in(4)).code != 0);
  CHECK(small.run("b", same, killed_in(3)).code != 0);
  REQUIRE(small.run("b", same).code == 0);
  const auto summary = [&](const std::string& run) {
    return nlohmann::json::parse(small.read(run + "/summary.json"));
  };
  CHECK(summary("a")["early_stop"]["stopped"] == true);
  CHECK(summary("a")["steps"] < 200);
  CHECK(summary("b")["steps"] == summary("a")["steps"]);
  CHECK(summary("b")["early_stop"] == summary("a")["early_stop"]);
  CHECK(summary("b")["validation"] == summary("a")["validation"]);
  const auto rates = [&](const std::string& run) {
    std::vector<double> found;
    for (const std::string& line : lines_of(small.read(run + "/metrics.jsonl"))) {
      const auto record = nlohmann::json::parse(line);
      if (record.contains("lr")) found.push_back(record["lr"]);
    }
    return found;
  };
  CHECK(rates("b") == rates("a"));
  CHECK(rates("a").size() == summary("a")["steps"]);
  CHECK(rates("a").back() < rates("a").front());
  CHECK(small.read("a/model.safetensors") == small.read("b/model.safetensors"));
  CHECK(small.read("a/confusion.json") == small.read("b/confusion.json"));
  CHECK_THAT(small.run("b", same).errors, ContainsSubstring("this run is finished"));
  CHECK_THAT(nlohmann::json::parse(small.read("a/status.json"))["message"].get<std::string>(),
             ContainsSubstring(
                 "early stop: validation macro_f1 has not improved by more than 0.01 in 5 evaluations"));

  // With more patience it goes on, as one that had it from the beginning.
  const std::string more = same + " validation.early_stop.patience=7";
  CHECK(small.run("a", more).code == 78);
  REQUIRE(small.run("a", more + " 'run.allow_changes=[validation.early_stop]'").code == 0);
  REQUIRE(small.run("c", more).code == 0);
  CHECK(summary("a")["steps"] > summary("b")["steps"]);
  CHECK(summary("a")["steps"] == summary("c")["steps"]);
  CHECK(small.read("a/model.safetensors") == small.read("c/model.safetensors"));
}
#endif

TEST_CASE("muon's momentum is part of a checkpoint: a run that resumes has the bits of one that went on") {
  const Small small;
  const std::string muon =
      "'optimizer={name: muon, lr: 0.01}' 'lr_scheduler={name: constant}' training.precision=fp32 ";
  REQUIRE(small.run("a", muon + "training.max_duration=12ba").code == 0);
  REQUIRE(small.run("b", muon + "training.max_duration=6ba").code == 0);
  REQUIRE(
      small.run("b", muon + "training.max_duration=12ba 'run.allow_changes=[training.max_duration]'").code ==
      0);
  CHECK(small.read("a/model.safetensors") == small.read("b/model.safetensors"));
  const std::string moments = "/checkpoints/step-00000012/optimizer.safetensors";
  CHECK(small.read("a" + moments) == small.read("b" + moments));
  CHECK_THAT(small.read("a" + moments), ContainsSubstring("fc1.weight.momentum"));
}

TEST_CASE("a run says how it stands: finished, saved or failed, where and why") {
  const Small small;
  const auto status = [&](const std::string& run) {
    return nlohmann::json::parse(small.read(run + "/status.json"));
  };
  REQUIRE(small.run("a", "").code == 0);
  const auto finished = status("a"), summary = nlohmann::json::parse(small.read("a/summary.json"));
  CHECK(finished["status"] == "finished");
  CHECK(finished["step"] == summary["steps"]);
  CHECK(finished["exit_code"] == 0);
  const Outcome asked = run_shell(
      "\"$TRAINER\" --config small.yaml checkpoint.interval=3ba run.output_dir=runs/b "
      "training.max_duration=1000000ba & "
      "until ls runs/b/checkpoints/step-* >/dev/null 2>&1; do sleep 0.02; done; kill -TERM $!; wait $!",
      small.workspace.path());
  REQUIRE(asked.code == 75);
  const auto saved = status("b");
  CHECK(saved["status"] == "saved");
  CHECK(saved["step"] >= 3);
  CHECK(saved["steps"] == 1000000);
  CHECK(saved["exit_code"] == 75);
  CHECK(saved["message"] == "SIGTERM");
  REQUIRE(small.run("c", "optimizer.lr=1e38").code == 70);
  const auto failed = status("c");
  CHECK(failed["status"] == "failed");
  CHECK(failed["exit_code"] == 70);
  CHECK_THAT(
      failed["message"].get<std::string>(),
      ContainsSubstring("the loss became") && ContainsSubstring("at step " + failed["step"].dump() + ";"));
}

TEST_CASE("a run is not continued to an end that it has passed") {
  const Small small;
  REQUIRE(small.run("a", "training.max_duration=12ba").code == 0);
  const Outcome shorter =
      small.run("a", "training.max_duration=5ba 'run.allow_changes=[training.max_duration]'");
  CHECK(shorter.code == 78);
  CHECK_THAT(shorter.errors, ContainsSubstring("training.max_duration: ends after step 5, but ") &&
                                 ContainsSubstring("at step 12"));
}

TEST_CASE("run.resume: never loses no checkpoint, and a path begins where another run is") {
  const Small small;
  REQUIRE(small.run("a", "training.max_duration=6ba run.resume=never").code == 0);
  fs::remove(small.path("a/summary.json"));
  const Outcome never = small.run("a", "training.max_duration=6ba run.resume=never");
  CHECK(never.code == 78);
  CHECK_THAT(never.errors, ContainsSubstring("up to step 6"));
  const std::string longer = "training.max_duration=12ba 'run.allow_changes=[training.max_duration]'";
  REQUIRE(small.run("b", longer + " run.resume=runs/a").code == 0);
  CHECK_THAT(small.read("b/log.txt"), ContainsSubstring("resuming after step 6"));
  REQUIRE(small.run("c", "training.max_duration=12ba").code == 0);
  CHECK(fs::exists(small.path("b/checkpoints/step-00000012")));
  CHECK(small.run("d", "run.resume=runs/none").code == 65);
}

TEST_CASE("a run whose checkpoints are all damaged does not begin again by itself") {
  const Small small;
  REQUIRE(small.run("a", "training.max_duration=9ba").code == 0);
  const std::vector<fs::path> saved = list_checkpoints(small.path("a/checkpoints"));
  REQUIRE(saved.size() == 2);
  for (const fs::path& path : saved) fs::resize_file(path / kOptimizerFile, 100);
  CHECK_THAT(small.run("a", "training.max_duration=9ba").errors, ContainsSubstring("this run is finished"));
  fs::remove(small.path("a/summary.json"));
  for (const char* more : {"", " run.resume=runs/b"}) {
    if (*more != 0) REQUIRE(small.run("b", "training.max_duration=9ba").code == 0);
    const Outcome refused = small.run("a", std::string("training.max_duration=9ba") + more);
    CHECK(refused.code == 65);
    CHECK_THAT(refused.errors, ContainsSubstring("no checkpoint in ") && ContainsSubstring("can be used") &&
                                   ContainsSubstring("step-00000006") &&
                                   ContainsSubstring("step-00000009/optimizer.safetensors: has 100 bytes"));
    CHECK(list_checkpoints(small.path("a/checkpoints")) == saved);
  }
  fs::remove_all(small.path("a/checkpoints"));
  CHECK(small.run("a", "training.max_duration=9ba").code == 0);
}

TEST_CASE("a reader of the messages that goes away does not end the run") {
  const Small small;
  run_shell("\"$TRAINER\" --config small.yaml run.output_dir=runs/a 2>&1 | head -n 1",
            small.workspace.path());
  CHECK(fs::exists(small.path("a/summary.json")));
}

TEST_CASE("a limit of the size of files is an error of saving, not the process's end") {
  const Small small;
  const Outcome limited = small.run("a", "", "ulimit -f 16;");
  CHECK(limited.code == 74);
  CHECK_THAT(limited.errors,
             ContainsSubstring("File too large") && ContainsSubstring("saves in a row failed"));
}

}  // namespace trainer
