// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <sstream>
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

/// More samples than can be predicted in a minute.
constexpr const char* kMany = "data.synthetic.val_samples=100000000";

/// Starts a command, sends TERM once `condition` holds, and returns how it ended.
std::string stopped_when(const std::string& condition, const std::string& command) {
  return command + " & process=$!; for i in $(seq 600); do " + condition +
         " && break; sleep 0.05; done; kill -TERM $process; wait $process";
}

}  // namespace

TEST_CASE("predict, pack and eval stop at a signal, and leave no half of a file or of a line") {
  const Workspace workspace;
  workspace.write("r.yaml", std::string(kSmallRecipe) + "runtime: {autotune: false}\n");
  REQUIRE(run_shell("\"$TRAINER\" --config r.yaml run.output_dir=run", workspace.path()).code == 0);
  const std::string recipe = std::string(" --config r.yaml run.resume=run/model.safetensors ") + kMany;

  const Outcome file =
      run_shell(stopped_when("ls .out.jsonl.tmp-*", "\"$TRAINER\" predict" + recipe + " --output out.jsonl"),
                workspace.path());
  CHECK(file.code == 75);
  CHECK_THAT(file.errors, ContainsSubstring("SIGTERM: stopped before the end; start the same command again"));
  CHECK(run_shell("ls -A | grep out.jsonl", workspace.path()).output.empty());

  const Outcome lines =
      run_shell(stopped_when("test -s lines", "\"$TRAINER\" predict" + recipe + " >lines"), workspace.path());
  CHECK(lines.code == 75);
  const std::string text = workspace.read("lines");
  REQUIRE_FALSE(text.empty());
  CHECK(text.back() == '\n');
  CHECK(nlohmann::json::accept(text.substr(text.rfind('\n', text.size() - 2) + 1)));

  const Outcome pack = run_shell(
      stopped_when("ls .packed.tmp-*", "\"$TRAINER\" data pack" + recipe + " --split val --out packed"),
      workspace.path());
  CHECK(pack.code == 75);
  CHECK(run_shell("ls -A | grep packed", workspace.path()).output.empty());

  const Outcome eval = run_shell(stopped_when("sleep 1", "\"$TRAINER\" eval" + recipe), workspace.path());
  CHECK(eval.code == 75);
  CHECK(eval.output.empty());
  CHECK_THAT(eval.errors, ContainsSubstring("stopped: nothing was written; start the same command again"));
}

TEST_CASE("no variable of OpenMP or oneDNN changes the bits of a run") {
  const Workspace workspace;
  workspace.write("r.yaml", std::string(kSmallRecipe) + "device: {threads: 2}\n");
  const auto weights = [&](const std::string& name, const std::string& variables) {
    const Outcome outcome =
        run_shell(variables + " \"$TRAINER\" --config r.yaml run.output_dir=" + name, workspace.path());
    INFO(variables << ": " << outcome.errors);
    CHECK(outcome.code == 0);
    return workspace.read(name + "/model.safetensors");
  };
  const std::string reference = weights("reference", "");
  REQUIRE_FALSE(reference.empty());
  int number = 0;
  for (const char* variables :
       {"OMP_NUM_THREADS=1", "OMP_NUM_THREADS=7", "OMP_DYNAMIC=true", "OMP_DYNAMIC=true OMP_NUM_THREADS=1",
        "OMP_MAX_ACTIVE_LEVELS=0", "OMP_NESTED=true", "OMP_PROC_BIND=true", "OMP_PLACES='{0}'",
        "GOMP_CPU_AFFINITY=0", "OMP_WAIT_POLICY=passive", "OMP_SCHEDULE=dynamic,1", "OMP_STACKSIZE=1M",
        "ONEDNN_DEFAULT_FPMATH_MODE=BF16", "DNNL_VERBOSE=0 ONEDNN_JIT_DUMP=0"}) {
    INFO(variables);
    CHECK(weights("run" + std::to_string(++number), variables) == reference);
  }
  const Outcome limited = run_shell("OMP_THREAD_LIMIT=1 \"$TRAINER\" --config r.yaml", workspace.path());
  CHECK(limited.code == 78);
  CHECK_THAT(limited.errors, ContainsSubstring("OMP_THREAD_LIMIT=1 allows fewer than 2 threads"));
}

// In clang's build GCC's OpenMP comes with oneDNN and binds the first thread before clang's counts.
#ifndef __clang__
TEST_CASE("where threads are bound to cores, all of the machine's are counted") {
  const Workspace workspace;
  const std::string threads = run_shell("\"$TRAINER\" doctor | grep threads", workspace.path()).output;
  CHECK(run_shell("OMP_PROC_BIND=true \"$TRAINER\" doctor | grep threads", workspace.path()).output ==
        threads);
}
#endif

TEST_CASE("threads that wait spin briefly unless the user says otherwise") {
  const Workspace workspace;
  const auto waiting = [&](const std::string& variables) {
    const std::string without = "env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT ";
    return run_shell(without + variables + " \"$TRAINER\" doctor | grep 'they wait'", workspace.path())
        .output;
  };
  CHECK_THAT(waiting(""), ContainsSubstring("spin briefly, then sleep (GOMP_SPINCOUNT=1000)"));
  CHECK_THAT(waiting("GOMP_SPINCOUNT=7"), ContainsSubstring("(GOMP_SPINCOUNT=7)"));
  const std::string active = waiting("OMP_WAIT_POLICY=active");
  CHECK_THAT(active, ContainsSubstring("OMP_WAIT_POLICY=active"));
  CHECK_THAT(active, !ContainsSubstring("GOMP_SPINCOUNT"));
}

TEST_CASE("a process that started itself again keeps its name, for ps and pkill") {
  const Workspace workspace;
  // The pipe is full at once: the program waits there until its name is read.
  const Outcome named = run_shell(R"(
mkfifo pipe
env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT "$TRAINER" schema >pipe &
exec 3<pipe
head -c 1 <&3 >/dev/null
cat "/proc/$!/comm"
cat <&3 >/dev/null
wait $!)",
                                  workspace.path());
  CHECK(named.code == 0);
  CHECK(named.output == "trainer\n");
}

TEST_CASE("a time limit in which a run makes no progress is called too short") {
  const Workspace workspace;
  // One step takes longer than the whole limit.
  workspace.write("r.yaml", R"(version: 1
run: {output_dir: run, max_wall_time: 8s}
model:
  input: [3, 224, 224]
  layers:
    - conv2d: {out_channels: 64, kernel_size: 7, padding: 3}
    - conv2d: {out_channels: 64, kernel_size: 7, padding: 3}
    - global_avg_pool2d
    - flatten
    - linear: 5
data: {format: synthetic, workers: 0, synthetic: {train_samples: 4096}}
training: {max_duration: 5ba, global_batch_size: 1024, micro_batch_size: 4}
)");
  const Outcome first = run_trainer({"--config", "r.yaml"}, workspace.path());
  CHECK(first.code == 75);
  CHECK_THAT(first.errors, ContainsSubstring("the time limit is reached") &&
                               !ContainsSubstring("started from this step too"));
  const Outcome second = run_trainer({"--config", "r.yaml"}, workspace.path());
  CHECK(second.code == 75);
  CHECK_THAT(
      second.errors,
      ContainsSubstring(
          "warning: the last process started from this step too, and was ended before it could save: if "
          "run.max_wall_time of 8s ended it, set run.max_wall_time (or the job's limit) to at least 16s"));
}

TEST_CASE(
    "an epoch that is longer than the time limit is come through in several starts, whatever ends them") {
  const Workspace workspace;
  workspace.write("r.yaml", std::string(kSmallRecipe) + "checkpoint: {interval: 1ep}\n");
  // Each start is killed as soon as it has saved. Without a first checkpoint it would end with 75.
  const auto killed_once = [&](const std::string& saved) {
    return run_shell(
        "\"$TRAINER\" --config r.yaml run.max_wall_time=20s run.output_dir=run "
        "training.max_duration=10000000ba data.synthetic.train_samples=16000000 validation.interval=0ep "
        "& process=$!; for i in $(seq 1000); do test $(ls -d run/checkpoints/step-* 2>/dev/null "
        "| wc -l) -ge " +
            saved + " && break; sleep 0.02; done; kill -9 $process; wait $process",
        workspace.path());
  };
  const Outcome first = killed_once("1");
  CHECK(first.code == 137);
  CHECK_THAT(first.errors, !ContainsSubstring("stopping after"));
  const Outcome second = killed_once("2");
  INFO(second.errors);
  CHECK(second.code == 137);
  CHECK_THAT(second.errors,
             ContainsSubstring("resuming after step ") && !ContainsSubstring("stopping after"));
}

}  // namespace trainer
