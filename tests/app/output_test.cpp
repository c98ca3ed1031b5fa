// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "tests/catch.h"

#include <algorithm>

#include "tests/app/command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

/// With a run of the small recipe in `run`.
void train_small(const Workspace& workspace) {
  workspace.write("small.yaml", kSmallRecipe);
  const Outcome trained = run_trainer(
      {"--config", "small.yaml", "training.max_duration=2ba", "run.output_dir=run"}, workspace.path());
  INFO(trained.errors);
  REQUIRE(trained.code == 0);
}

constexpr const char* kTrained = " --config small.yaml training.max_duration=2ba run.output_dir=run";

const std::vector<std::string>& printing_commands() {
  static const std::vector<std::string> lines = {std::string("train --dump-config") + kTrained,
                                                 std::string("plan") + kTrained,
                                                 std::string("plan --json") + kTrained,
                                                 std::string("plan --dump program") + kTrained,
                                                 std::string("eval") + kTrained,
                                                 std::string("predict") + kTrained,
                                                 std::string("data stats") + kTrained,
                                                 "inspect run",
                                                 "inspect run --json",
                                                 "inspect run/model.safetensors",
                                                 "runs .",
                                                 "runs . --json",
                                                 "layers",
                                                 "schema",
                                                 "schema --markdown",
                                                 "schema --metrics",
                                                 std::string("time --iterations 1") + kTrained,
                                                 "doctor",
                                                 "--help",
                                                 "--version"};
  return lines;
}

}  // namespace

TEST_CASE("what cannot be printed is an I/O error of one sentence, whatever the command") {
  const Workspace workspace;
  train_small(workspace);
  for (const std::string& line : printing_commands()) {
    INFO(line);
    const Outcome full = run_shell("\"$TRAINER\" " + line + " >/dev/full", workspace.path());
    CHECK(full.code == 74);
    CHECK_THAT(full.errors, EndsWith("standard output: No space left on device\n") ||
                                EndsWith("standard output: write: No space left on device\n"));
    CHECK(std::count(full.errors.begin(), full.errors.end(), '\n') == 1);
    const Outcome closed = run_shell("\"$TRAINER\" " + line + " >&-", workspace.path());
    CHECK(closed.code == 74);
    CHECK_THAT(closed.errors, EndsWith("Bad file descriptor\n"));
  }
}

TEST_CASE("an error keeps its exit code where it cannot be printed") {
  const Workspace workspace;
  for (const char* stream : {"2>/dev/full", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    INFO(stream);
    const std::string end = std::string(" ") + stream;
    CHECK(run_shell("\"$TRAINER\" --config none.yaml" + end, workspace.path()).code == 78);
    CHECK(run_shell("\"$TRAINER\" nonsense" + end, workspace.path()).code == 64);
  }
  workspace.write("small.yaml", kSmallRecipe);
  // Closed descriptors are not reused for the run's files.
  const Outcome trained =
      run_shell("\"$TRAINER\" --config small.yaml training.max_duration=2ba run.output_dir=run <&- >&- 2>&-",
                workspace.path());
  CHECK(trained.code == 0);
  CHECK_THAT(workspace.read("run/metrics.jsonl"), StartsWith("{\"step\":1,"));
}

TEST_CASE("predict and data pack write through pipes and devices, and replace files only") {
  const Workspace workspace;
  train_small(workspace);
  const std::string predict = std::string("\"$TRAINER\" predict") + kTrained;
  const std::string pack = std::string("\"$TRAINER\" data pack") + kTrained;
  const auto run = [&](const std::string& line) {
    Outcome outcome = run_shell(line, workspace.path());
    INFO(line << ": " << outcome.errors);
    CHECK(outcome.code == 0);
    return outcome;
  };
  run(predict + " -o lines && " + pack + " -o packed");
  run(predict + " -o /dev/null && " + pack + " -o /dev/null && test -c /dev/null");
  run(predict + " -o /dev/stdout >a && cmp a lines");
  run("echo head >b && " + predict + " -o /dev/stdout >>b && (echo head && cat lines) | cmp b");
  run(predict + " -o /dev/stdout | cmp - lines");
  const Outcome packed = run(pack + " -o /dev/stdout | cmp - packed");
  CHECK_THAT(packed.errors, StartsWith("/dev/stdout: 640 samples of data.train, "));
  run("mkfifo pipe && (cat pipe >c &) && " + pack + " -o pipe && test -p pipe && sleep 0.2 && cmp c packed");
  run("ln -s lines link && " + predict + " -o link --top 1 && test -L link && ! cmp -s lines a");
  for (const std::string& line : {predict, pack}) {
    const Outcome full = run_shell(line + " -o /dev/full", workspace.path());
    CHECK(full.code == 74);
    CHECK(full.errors == "trainer: error: /dev/full: write: No space left on device\n");
    const Outcome folder = run_shell(line + " -o run", workspace.path());
    CHECK(folder.code == 64);
    CHECK(folder.errors == "trainer: error: run: is a directory; name another file to write\n");
  }
}

TEST_CASE("an output is not one of the files that are read for it") {
  const Workspace workspace;
  train_small(workspace);
  const auto refused = [&](const std::string& line, const std::string& input) {
    INFO(line);
    const Outcome outcome = run_shell("\"$TRAINER\" " + line, workspace.path());
    CHECK(outcome.code == 64);
    CHECK_THAT(outcome.errors, ContainsSubstring("is an input of this command (" + input + ")"));
  };
  const std::string small = workspace.read("small.yaml");
  refused(std::string("predict -o ./small.yaml") + kTrained, "small.yaml");
  refused(std::string("data pack -o ./small.yaml") + kTrained, "small.yaml");
  refused(std::string("predict -o run/model.safetensors") + kTrained, "run/model.safetensors");
  CHECK(workspace.read("small.yaml") == small);
  REQUIRE(run_shell(std::string("\"$TRAINER\" data pack -o train.rec") + kTrained, workspace.path()).code ==
          0);
  refused(std::string("data pack -o ./train.rec data.format=record data.train=train.rec") + kTrained,
          "train.rec");
  CHECK(run_shell("ls -A | grep tmp", workspace.path()).output.empty());
}

}  // namespace trainer
