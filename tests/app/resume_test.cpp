// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "core/storage/checkpoint.h"
#include "tests/app/command.h"
#include "tests/storage/scratch_directory.h"

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

/// Every file below a directory.
std::map<std::string, std::string> files_below(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files[entry.path().string()] = test::contents(entry.path());
  }
  return files;
}

#ifdef TRAINER_FAULTS
/// The process is killed when its `save`th save gets its name.
std::string killed_in(int save) {
  return "LD_PRELOAD=" TRAINER_FAULTS
         " FAULT_PATH=checkpoints/.saving FAULT_CALLS=rename FAULT_ACTION=kill FAULT_AT=" +
         std::to_string(save);
}

/// One such call on a file of the checkpoint of step 9 fails, or a read flips a bit.
std::string faulty_read(const std::string& calls, const std::string& action, int at) {
  return "LD_PRELOAD=" TRAINER_FAULTS " FAULT_PATH=checkpoints/step-00000009/ FAULT_CALLS=" + calls +
         " FAULT_ACTION=" + action + " FAULT_AT=" + std::to_string(at);
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

TEST_CASE("a checkpoint that cannot be read, or is read in two ways, ends the start and stays") {
  const Small small;
  const std::string same = "training.max_duration=9ba";
  REQUIRE(small.run("a", same).code == 0);
  const std::string bits = small.read("a/model.safetensors");
  fs::remove(small.path("a/summary.json"));
  const auto saved = files_below(small.path("a/checkpoints"));
  // Opened in this order: the manifest, three files, the state twice to be parsed, and two files to be
  // loaded. The manifest and the state's text are not read by pread.
  for (const auto& [calls, action, at] : std::vector<std::tuple<std::string, int, int>>{{"open", EIO, 1},
                                                                                        {"open", EMFILE, 2},
                                                                                        {"open", EACCES, 5},
                                                                                        {"open", EIO, 6},
                                                                                        {"pread", EIO, 1},
                                                                                        {"pread", ENOMEM, 3},
                                                                                        {"pread", EIO, 4},
                                                                                        {"pread", EIO, 5}}) {
    const Outcome refused = small.run("a", same, faulty_read(calls, std::to_string(action), at));
    INFO(calls << " " << at << ": " << refused.errors);
    CHECK(refused.code == 74);
    CHECK_THAT(refused.errors, ContainsSubstring("checkpoints/step-00000009/"));
    CHECK(files_below(small.path("a/checkpoints")) == saved);
  }
  for (const int at : {1, 3, 4}) {
    const Outcome refused = small.run("a", same, faulty_read("pread", "flip", at));
    INFO(at << ": " << refused.errors);
    CHECK(refused.code == 74);
    CHECK_THAT(refused.errors, ContainsSubstring("two reads gave different bytes"));
    CHECK(files_below(small.path("a/checkpoints")) == saved);
  }
  const Outcome whole = small.run("a", same);
  CHECK(whole.code == 0);
  CHECK_THAT(whole.errors, ContainsSubstring("resuming after step 9"));
  CHECK(small.read("a/model.safetensors") == bits);
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

  // With more patience it continues like one that had it from the beginning.
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

TEST_CASE("a damaged checkpoint is kept under another name, one of a newer version refused and left") {
  const Small small;
  const std::string same = "training.max_duration=9ba";
  REQUIRE(small.run("a", same).code == 0);
  const std::string bits = small.read("a/model.safetensors");
  fs::remove(small.path("a/summary.json"));
  fs::remove(small.path("a/model.safetensors"));
  const fs::path newest = small.path("a/checkpoints/step-00000009");
  const std::string manifest = test::contents(newest / kManifestFile);
  test::put(newest / kManifestFile, "trainer checkpoint 2" + manifest.substr(20) + "\n");
  const auto saved = files_below(small.path("a/checkpoints"));
  for (const char* command : {"", "eval"}) {
    const Outcome newer =
        run_shell(std::string("\"$TRAINER\" ") + command +
                      " --config small.yaml checkpoint.interval=3ba run.output_dir=runs/a " + same,
                  small.workspace.path());
    CHECK(newer.code == 65);
    CHECK_THAT(newer.errors,
               ContainsSubstring("step-00000009/manifest.txt: is of version 2, this program reads "
                                 "version 1; use the program that wrote it"));
    CHECK(files_below(small.path("a/checkpoints")) == saved);
  }
  const Outcome inspected = run_shell("\"$TRAINER\" inspect runs/a", small.workspace.path());
  CHECK(inspected.code == 65);
  CHECK_THAT(inspected.output, ContainsSubstring("OF ANOTHER VERSION") && !ContainsSubstring("DAMAGED"));
  test::put(newest / kManifestFile, manifest.substr(0, 40));
  const Outcome again = small.run("a", same);
  CHECK(again.code == 0);
  CHECK_THAT(again.errors, ContainsSubstring("skipping checkpoint step-00000009") &&
                               ContainsSubstring("is kept as runs/a/checkpoints/damaged-step-00000009"));
  CHECK(small.read("a/checkpoints/damaged-step-00000009/manifest.txt") == manifest.substr(0, 40));
  CHECK(fs::exists(small.path("a/checkpoints/damaged-step-00000009/optimizer.safetensors")));
  CHECK_THAT(run_shell("\"$TRAINER\" inspect runs/a", small.workspace.path()).output,
             ContainsSubstring("2 checkpoints") && ContainsSubstring("damaged-step-00000009  set aside"));
  CHECK(small.read("a/model.safetensors") == bits);
}

TEST_CASE("a checkpoint of another run in the run's directory is refused, with both values, and left") {
  const Small small;
  const std::string same = "training.max_duration=9ba";
  REQUIRE(small.run("a", same).code == 0);
  REQUIRE(small.run("b", same + " run.seed=4 optimizer.lr=0.1").code == 0);
  const fs::path newest = small.path("a/checkpoints/step-00000009");
  fs::remove(small.path("a/summary.json"));
  fs::remove_all(newest);
  fs::copy(small.path("b/checkpoints/step-00000009"), newest, fs::copy_options::recursive);
  const auto saved = files_below(small.path("a/checkpoints"));
  const Outcome refused = small.run("a", same);
  CHECK(refused.code == 78);
  CHECK_THAT(refused.errors,
             ContainsSubstring("step-00000009 belongs to another run (optimizer.lr is 0.1 there and "
                               "0.05 here, run.seed is 4 there and 3 here)") &&
                 ContainsSubstring("run.allow_changes"));
  CHECK(files_below(small.path("a/checkpoints")) == saved);
  CHECK(small.run("a", same + " 'run.allow_changes=[run.seed]'").code == 78);
  const Outcome allowed = small.run("a", same + " 'run.allow_changes=[run.seed, optimizer.lr, data]'");
  CHECK(allowed.code == 0);
  CHECK_THAT(allowed.errors, ContainsSubstring("resuming after step 9"));
}

TEST_CASE("of two processes in one directory the first ends once its lock is gone, and saves no more") {
  const Small small;
  const Outcome outcome = run_shell(
      R"sh(start() { exec "$TRAINER" --config small.yaml checkpoint.interval=3ba run.output_dir=runs/a \
           training.max_duration=1000000ba; }
         start 2>first.txt & first=$!
         until ls runs/a/checkpoints/step-* >/dev/null 2>&1; do sleep 0.02; done
         rm runs/a/lock
         start 2>second.txt & second=$!
         wait $first; echo "first $?"
         before=$(ls runs/a/checkpoints)
         until grep -q 'resuming after step' second.txt && [ "$(ls runs/a/checkpoints)" != "$before" ]; do
           if ! kill -0 $second; then # the first saved while this one began
             grep -q 'has just changed runs/a; start the same command again' second.txt || break
             start 2>second.txt & second=$!
           fi
           sleep 0.02
         done
         kill -TERM $second; wait $second; echo "second $?")sh",
      small.workspace.path());
  INFO(small.workspace.read("first.txt") << small.workspace.read("second.txt"));
  CHECK(outcome.output == "first 74\nsecond 75\n");
  CHECK_THAT(small.workspace.read("first.txt"),
             ContainsSubstring("was taken over by process ") ||
                 ContainsSubstring("lock was removed while the run worked there"));
  for (const fs::path& path : list_checkpoints(small.path("a/checkpoints")))
    CHECK(verify_checkpoint(path).step == checkpoint_step(path));
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
