// SPDX-License-Identifier: Apache-2.0
#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Strings = std::vector<std::string>;

constexpr const char* kSwept = R"(version: 1
run: {name: swept, seed: 3}
model:
  input: [1, 8, 8]
  layers: [flatten, {linear: 16}, tanh, {linear: 4}]
data: {format: synthetic, synthetic: {train_samples: 96, val_samples: 32}}
training: {max_duration: 9ba, global_batch_size: 24}
optimizer: {name: sgd, lr: 0.05}
validation: {interval: 1ba}
device: {type: cpu, threads: 1}
sweep:
  method: random
  halving: {first: 3ba, factor: 3}
  metric: loss
  trials: 4
  parameters:
    - log_uniform: {key: optimizer.lr, from: 1.0e-4, to: 1}
    - choice: {key: optimizer.name, values: [sgd, adamw]}
)";

/// A workspace with the recipe, and words that are repeated.
struct SweepWorkspace {
  SweepWorkspace() { workspace.write("r.yaml", kSwept); }
  Outcome run(Strings words) const { return run_trainer(words, workspace.path()); }
  Outcome sweep(Strings words = {}) const {
    words.insert(words.begin(), {"sweep", "r.yaml"});
    return run(words);
  }
  Workspace workspace;
};

}  // namespace

TEST_CASE("a sweep trains its settings, writes a table and the best recipe, and then is done") {
  const SweepWorkspace there;
  const Outcome first = there.sweep();
  INFO(first.errors);
  REQUIRE(first.code == 0);
  for (const char* line :
       {"sweep of 4 trials in runs/swept-sweep", "trial 0 trains to 3ba, as written", "best: trial"})
    CHECK_THAT(first.errors, ContainsSubstring(line));
  const std::string table = there.workspace.read("runs/swept-sweep/sweep.csv");
  CHECK(lines_of(table).size() == 5);
  CHECK_THAT(table,
             ContainsSubstring("trial,state,reason,optimizer.lr,optimizer.name,loss at 3ba,loss,steps,"));
  CHECK_THAT(table, ContainsSubstring("\n0,finished,,0.05,sgd,"));
  const Outcome again = there.sweep();
  CHECK(again.code == 0);
  CHECK_THAT(again.errors, !ContainsSubstring(" trains to "));
  CHECK(there.workspace.read("runs/swept-sweep/sweep.csv") == table);
  // A run of the recipe knows nothing of the sweep, nor does the best one.
  CHECK_THAT(there.workspace.read("runs/swept-sweep/best.yaml"), ContainsSubstring("# Trial "));
  CHECK(there.run({"--config", "runs/swept-sweep/best.yaml", "run.output_dir=best"}).code == 0);
  CHECK(there.run({"r.yaml", "run.output_dir=plain"}).code == 0);
}

TEST_CASE("a sweep grows, and refuses to become another one") {
  const SweepWorkspace there;
  REQUIRE(there.sweep({"sweep.trials=2"}).code == 0);
  const Outcome more = there.sweep({"sweep.trials=3", "sweep.parallel=2"});
  CHECK(more.code == 0);
  CHECK_THAT(more.errors, ContainsSubstring("trial 2 trains to"));
  CHECK_THAT(more.errors, !ContainsSubstring("trial 1 trains to"));
  const Outcome other = there.sweep({"sweep.trials=3", "optimizer.lr=0.1"});
  CHECK(other.code == 78);
  CHECK_THAT(other.errors,
             ContainsSubstring("runs/swept-sweep holds a sweep of another recipe: optimizer.lr is 0.05 "
                               "there and 0.1 here"));
  CHECK(there.sweep({"sweep.trials=2"}).code == 78);
}

TEST_CASE("a sweep without any value ends with 70, one that cannot train with the code that says so") {
  const SweepWorkspace there;
  const Outcome none =
      there.sweep({"sweep.metric=loss", "optimizer.lr=3e37", "run.output_dir=none",
                   "sweep.parameters=[{choice: {key: optimizer.lr, values: [1.0e+37, 2.0e+37]}}]"});
  CHECK(none.code == 70);
  CHECK_THAT(none.errors, ContainsSubstring("no trial has a value; none/sweep.csv says why"));
  CHECK_FALSE(fs::exists(there.workspace.path() / "none/best.yaml"));
  CHECK_THAT(there.workspace.read("none/sweep.csv"), ContainsSubstring("numeric: "));
  const Outcome refused = there.sweep({"sweep.parameters=[{uniform: {key: optimizer.lrr, from: 1, to: 0}}]"});
  CHECK(refused.code == 78);
  CHECK_FALSE(fs::exists(there.workspace.path() / "runs"));
  const Outcome gpu = there.sweep({"device.type=cuda", "run.output_dir=gpu"});
  CHECK(gpu.code == 69);
  CHECK_THAT(gpu.errors, ContainsSubstring("ended with exit code 69, as all others would"));
}

TEST_CASE("a sweep notices that its recipe is edited, and counts nothing of that as a result") {
  const SweepWorkspace there;
  const std::string sweep =
      "$TRAINER sweep r.yaml training.max_duration=9000ba sweep.halving.first=3000ba "
      "validation.interval=3000ba";
  const Outcome edited = run_shell(sweep + R"( >out 2>&1 & sweep=$!
      until grep -q 'trial 0 trains' out; do sleep 0.02; done
      cp r.yaml as_it_was; sed -i 's/lr: 0.05/lr: 0.07/' r.yaml
      wait $sweep; code=$?; cp as_it_was r.yaml; exit $code)",
                                   there.workspace.path());
  INFO(there.workspace.read("out"));
  CHECK(edited.code == 78);
  CHECK_THAT(there.workspace.read("out"), ContainsSubstring("r.yaml has changed since the sweep began") ||
                                              ContainsSubstring("r.yaml was edited while trial"));
  CHECK(run_shell(sweep, there.workspace.path()).code == 0);
  CHECK_THAT(there.workspace.read("runs/swept-sweep/sweep.csv"), !ContainsSubstring("failed"));
}

TEST_CASE("a run of several ranks pauses, and goes on with the bits of one that never did") {
  if (!has_mpi()) return;
  const SweepWorkspace there;
  const auto train = [&](const std::string& words) {
    return run_ranks(
        "$TRAINER r.yaml parallelism.data=2 training.micro_batch_size=12 optimizer.momentum=0.9 " + words,
        there.workspace.path());
  };
  const Outcome paused = train("run.output_dir=paused run.stop_after=4ba");
  INFO(paused.errors);
  CHECK(paused.code == 0);
  CHECK_THAT(there.workspace.read("paused/status.json"), ContainsSubstring("\"paused\""));
  CHECK_FALSE(fs::exists(there.workspace.path() / "paused/model.safetensors"));
  CHECK(train("run.output_dir=paused").code == 0);
  CHECK(train("run.output_dir=whole").code == 0);
  CHECK(there.workspace.read("paused/model.safetensors") == there.workspace.read("whole/model.safetensors"));
}

TEST_CASE("sweep --plan lists what is known beforehand, and starts nothing") {
  const SweepWorkspace there;
  const Outcome plan = there.sweep({"--plan"});
  INFO(plan.errors);
  CHECK(plan.code == 0);
  CHECK(lines_of(plan.output).size() == 6);
  CHECK_THAT(plan.output, ContainsSubstring("as written") && ContainsSubstring("optimizer.lr=") &&
                              ContainsSubstring("at 3ba the best 1 of 3 go on"));
  const Outcome learned = there.sweep({"--plan", "sweep.method={name: tpe, lag: 2}"});
  CHECK_THAT(learned.output, ContainsSubstring("3 more follow from the results before them"));
  CHECK_FALSE(fs::exists(there.workspace.path() / "runs"));
}

TEST_CASE("watch, report and runs take a sweep") {
  const SweepWorkspace there;
  REQUIRE(there.sweep().code == 0);
  const Outcome watched = there.run({"watch", "runs/swept-sweep"});
  CHECK(watched.code == 0);
  CHECK_THAT(watched.output, ContainsSubstring("of 4 trials finished") &&
                                 ContainsSubstring("best loss so far") && ContainsSubstring("trial  loss"));
  const Outcome reported = there.run({"report", "runs/swept-sweep"});
  CHECK(reported.code == 0);
  CHECK_THAT(reported.output, ContainsSubstring("wrote runs/swept-sweep/report.html"));
  CHECK_THAT(there.workspace.read("runs/swept-sweep/report.html"), ContainsSubstring("optimizer.lr"));
  CHECK_THAT(there.run({"runs", "runs/swept-sweep"}).output, ContainsSubstring("trial-0003"));
  // A damaged record is named, and the rest shown.
  there.workspace.write("runs/swept-sweep/trial-0002.json", "{");
  CHECK_THAT(there.run({"watch", "runs/swept-sweep"}).output,
             ContainsSubstring("trial-0002.json is damaged"));
  const Outcome mended = there.sweep();
  CHECK(mended.code == 0);
  CHECK_THAT(mended.errors,
             ContainsSubstring("trial-0002.json is damaged: its trial goes on from its own run"));
}

}  // namespace trainer
