// SPDX-License-Identifier: Apache-2.0
#include "core/sweep/trial_record.h"

#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include "tests/catch.h"

#include "core/metrics/metrics.h"
#include "core/sweep/sweep_directory.h"
#include "core/sweep/sweep_table.h"
#include "core/sweep/trial_lock.h"
#include "core/sweep/trial_process.h"
#include "tests/storage/scratch_directory.h"
#include "tests/sweep/plans.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using test::plan_of;
using test::ScratchDirectory;

TrialRecord full_record() {
  TrialRecord record = test::trained(7, {1.5, 0.25}, 0.125);
  record.overrides = {"optimizer.lr=0.1", "model.layers=[flatten, {linear: \"5\"}]"};
  record.repeats[0].steps = 9;
  record.repeats[0].seconds = 1.5;
  record.repeats[0].samples_per_s = 123.25;
  record.repeats[0].peak_bytes = int64_t{1} << 40;
  record.failure = TrialFailure{.reason = "memory", .code = 71, .message = "\"no\"\n"};
  record.kills = 1;
  record.requeues = 2;
  return record;
}

/// A status of waitpid.
int exited(int code) {
  return code << 8;
}

std::string lr_sweep() {
  return "method: random, trials: 4, metric: loss, parameters: [{uniform: {key: optimizer.lr, from: 0, to: "
         "1}}]";
}

}  // namespace

TEST_CASE("a trial's record is read as it was written, and nothing else is") {
  const TrialRecord record = full_record();
  CHECK(parse_trial(to_json(record)) == record);
  const std::string text = to_json(record);
  for (size_t size = 0; size + 1 < text.size(); size += 7) CHECK_FALSE(parse_trial(text.substr(0, size)));
  for (const char* wrong : {"", "null", "[]", "{}", "{\"number\": -1}"}) CHECK_FALSE(parse_trial(wrong));
  std::string other = text;
  other.replace(other.find("1.5"), 3, "\"a\"");
  CHECK_FALSE(parse_trial(other));
}

TEST_CASE("a lock belongs to one process at a time") {
  const ScratchDirectory scratch;
  CHECK_FALSE(TrialLock::is_held(scratch.path(), 3));
  CHECK_FALSE(fs::exists(scratch / "trial-0003.lock"));
  std::optional<TrialLock> lock = TrialLock::take(scratch.path(), 3);
  REQUIRE(lock);
  CHECK(TrialLock::is_held(scratch.path(), 3));
  CHECK_FALSE(TrialLock::take(scratch.path(), 3));
  CHECK(TrialLock::take(scratch.path(), 4));
  CHECK(TrialLock::is_owned(scratch.path(), 3));
  // Its process has it alone.
  FileDescriptor inherited(::dup(lock->descriptor()));
  lock.reset();
  CHECK(TrialLock::is_held(scratch.path(), 3));
  CHECK_FALSE(TrialLock::is_owned(scratch.path(), 3));
  CHECK_FALSE(TrialLock::take(scratch.path(), 3));
  inherited.reset();
  CHECK_FALSE(TrialLock::is_held(scratch.path(), 3));
  CHECK(TrialLock::take(scratch.path(), 3));
}

TEST_CASE("ends of a trial's process that say something about the setting are results") {
  const SweepPlan plan = plan_of(lr_sweep());
  const auto after = [&](const TrialEnd& end, int64_t before = 0) {
    TrialRecord record{.number = 1, .repeats = {{}}, .kills = before, .requeues = before};
    const int code = add_end(plan, "nowhere", {}, end, record);
    return std::pair(code, record.failure ? record.failure->reason : "");
  };
  using Result = std::pair<int, std::string>;
  CHECK(after({.status = exited(71)}) == Result{0, "memory"});
  CHECK(after({.status = exited(70)}) == Result{0, "numeric"});
  CHECK(after({.status = exited(65)}) == Result{0, "data"});
  CHECK(after({.status = exited(78)}) == Result{0, "settings"});
  CHECK(after({.status = SIGKILL, .was_late = true}) == Result{0, "timeout"});
  CHECK(after({.status = SIGKILL, .lacked_memory = true}) == Result{0, "memory"});
  CHECK(after({.status = exited(76), .lacked_memory = true}) == Result{0, "memory"});
  CHECK(after({.status = SIGKILL}) == Result{0, ""});
  CHECK(after({.status = SIGKILL}, 1) == Result{0, "killed"});
  for (const int code : {75, 76}) {
    CHECK(after({.status = exited(code)}) == Result{0, ""});
    CHECK(after({.status = exited(code)}, 2) == Result{0, ""});
    CHECK(after({.status = exited(code)}, 3) == Result{0, "stopped"});
    CHECK(after({.status = exited(code), .was_asked = true}, 3) == Result{0, ""});
  }
  for (const int code : {64, 69, 74}) CHECK(after({.status = exited(code)}) == Result{code, ""});
  for (const int code : {126, 127}) CHECK(after({.status = exited(code)}) == Result{69, ""});  // no program
  CHECK(after({.status = SIGTERM, .lacked_memory = true}) == Result{0, ""});
}

TEST_CASE(
    "a run's values are those at its pause, or at its end, whatever its status says of an earlier process") {
  const ScratchDirectory scratch;
  const SweepPlan plan = plan_of("halving: {first: 30ba}, " + lr_sweep());
  const fs::path run = scratch / "trial-0001";
  fs::create_directories(run);
  std::string lines;
  for (const int step : {30, 60, 90}) {
    lines += to_json(MetricsRecord{
                 .step = step, .epoch = step / 10.0, .split = "validation", .loss = 100.0 - step}) +
             "\n";
  }
  test::put(run / "metrics.jsonl", lines);
  const auto after = [&](const std::string& status) {
    test::put(run / "status.json", status);
    TrialRecord record{.number = 1, .texts = {"0.1"}, .repeats = {{}}};
    CHECK(add_end(plan, scratch.path(), {}, {.status = exited(0)}, record) == 0);
    return record;
  };
  const std::string of = R"("steps": 90, "pid": 1, "host": "h", "updated": 1, )";
  const TrialRecord paused = after("{" + of + R"("status": "paused", "step": 30, "pause_after": 30})");
  CHECK(paused.repeats[0].rungs == std::vector<TrialValue>{{30, 70}});
  CHECK_FALSE(paused.repeats[0].end);
  // It had gone on already when its record was lost.
  const TrialRecord further = after("{" + of + R"("status": "paused", "step": 60, "pause_after": 30})");
  CHECK(further.repeats[0].rungs == std::vector<TrialValue>{{30, 70}});
  const std::string running = "{" + of + R"("status": "running", "step": 0})";
  test::put(run / "summary.json", R"({"finished": true})");
  for (const std::string& status : {running, "{" + of + R"("status": "finished", "step": 90})"}) {
    const TrialRecord finished = after(status);
    CHECK(finished.repeats[0].rungs == std::vector<TrialValue>{{30, 70}});
    CHECK(finished.repeats[0].end == TrialValue{90, 10});
    CHECK_FALSE(finished.failure);
  }
}

TEST_CASE("the results of earlier sweeps are those of the moment when this one began") {
  const ScratchDirectory scratch;
  const auto plan = [&](const std::string& more, const std::string& name) {
    return SweepPlan(
        {.path = "swept.yaml",
         .text = test::swept_recipe(
             "method: tpe, trials: 6, parameters: [{uniform: {key: optimizer.lr, from: 0, to: 1}}]" + more)},
        {"run.output_dir=" + (scratch / name).string()});
  };
  const SweepPlan earlier = plan(", metric: loss", "a");
  const SweepDirectory there(earlier, 1);
  write_trial(there.path(), test::trained(0, {}, 0.5));
  write_trial(there.path(), {.number = 1, .texts = {"0.2"}, .repeats = {{}}});
  const std::string know = ", know: [" + (scratch / "a").string() + "]";
  const SweepPlan later = plan(", metric: loss" + know, "b");
  const std::vector<Observation> known = SweepDirectory(later, 1).known();
  REQUIRE(known.size() == 1);
  CHECK(known[0].setting == Setting{0.1});
  CHECK(known[0].value == 0.5);
  write_trial(there.path(), test::trained(1, {}, 0.25));
  CHECK(SweepDirectory(later, 1).known().size() == 1);
  const SweepPlan other = plan(", metric: top1" + know, "c");
  CHECK_THAT(test::error_text(ExitCode::recipe, [&] { SweepDirectory(other, 1); }),
             ContainsSubstring("holds a sweep by loss, not by top1"));
  const SweepPlan nowhere = plan(", metric: loss, know: [nowhere]", "d");
  CHECK_THAT(test::error_text(ExitCode::recipe, [&] { SweepDirectory(nowhere, 1); }),
             ContainsSubstring("there is no sweep in nowhere"));
}

TEST_CASE("a directory belongs to one sweep, whose trials may grow in number") {
  const ScratchDirectory scratch;
  const std::string directory = "run.output_dir=" + (scratch / "sweep").string();
  const auto open = [&](const std::string& sweep, int64_t threads) {
    const SweepPlan plan({.path = "swept.yaml", .text = test::swept_recipe(sweep)}, {directory});
    return SweepDirectory(plan, threads).threads();
  };
  CHECK(open(lr_sweep(), 3) == 3);
  CHECK(open(lr_sweep(), 5) == 3);  // bits depend on it
  std::string other = lr_sweep();
  other.replace(other.find("to: 1"), 5, "to: 2");
  const auto refused = [&](const std::string& sweep) {
    return test::error_text(ExitCode::recipe, [&] { open(sweep, 3); });
  };
  CHECK_THAT(refused(other), ContainsSubstring("sweep.parameters[0].uniform.to"));
  std::string more = lr_sweep(), fewer = lr_sweep();
  more.replace(more.find("trials: 4"), 9, "parallel: 2, trials: 5");
  CHECK(open(more, 3) == 3);
  CHECK_THAT(refused(fewer), ContainsSubstring("a sweep of 5 trials, and sweep.trials is 4"));
  CHECK(sweep_in(scratch / "sweep").value().trials() == 5);
  CHECK_FALSE(sweep_in(scratch.path()));
  fs::create_directories(scratch / "other");
  test::put(scratch / "other/file", "x");
  const SweepPlan there({.path = "swept.yaml", .text = test::swept_recipe(lr_sweep())},
                        {"run.output_dir=" + (scratch / "other").string()});
  CHECK_THAT(test::error_text(ExitCode::recipe, [&] { SweepDirectory(there, 1); }),
             ContainsSubstring("is not empty, and holds no sweep"));
}

TEST_CASE("damaged records are named once, and changed ones are read again") {
  const ScratchDirectory scratch;
  const SweepPlan plan(
      {.path = "swept.yaml", .text = test::swept_recipe("halving: {first: 1ba}, " + lr_sweep())},
      {"run.output_dir=" + (scratch / "sweep").string()});
  SweepDirectory directory(plan, 1);
  std::vector<std::string> warnings;
  const auto records = [&] {
    return directory.records([&](const std::string& text) { warnings.push_back(text); });
  };
  CHECK(records().empty());
  write_trial(directory.path(), test::trained(2, {1}));
  CHECK(records().at(2) == test::trained(2, {1}));
  write_trial(directory.path(), test::trained(2, {1, 2}));
  CHECK(records().at(2) == test::trained(2, {1, 2}));
  test::put(directory.path() / "trial-0002.json", "{");
  test::put(directory.path() / "trial-0001.json", to_json(test::trained(3, {1})));
  TrialRecord other = test::trained(3, {1});
  other.texts = {"0.1", "0.2"};  // of another sweep
  write_trial(directory.path(), other);
  CHECK(records().empty());
  CHECK(records().empty());
  REQUIRE(warnings.size() == 3);
  CHECK_THAT(warnings[0],
             ContainsSubstring("trial-0001.json is damaged: its trial goes on from its own run"));
}

TEST_CASE("the table has a row for each trial, and empty cells for what is not there") {
  const SweepPlan plan = plan_of(
      "method: random, trials: 4, metric: loss, halving: {first: 30ba}, parameters: "
      "[{choice: {key: optimizer.lr, values: [0.05, 0.1]}}]");
  TrialRecords records;
  records[0] = test::trained(0, {1.5}, 0.5);
  records[1] = test::trained(1, {2.5});
  records[2] = {.number = 2, .failure = TrialFailure{.reason = "memory", .code = 71, .message = "a, \"b\""}};
  const std::vector<SweepRow> rows = sweep_rows(plan, records, sweep_state(plan, records));
  CHECK(sweep_csv(plan, rows) ==
        "trial,state,reason,optimizer.lr,loss at "
        "30ba,loss,steps,samples_per_s,peak_bytes,joules_per_sample,seconds\n"
        "0,finished,,0.1,1.5,0.5,0,,,,0.00\n"
        "1,dropped at 30ba,,0.1,2.5,,0,,,,0.00\n"
        "2,failed,\"memory: a, \"\"b\"\"\",,,,0,,,,0.00\n");
}

}  // namespace trainer
