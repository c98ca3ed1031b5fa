// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_list.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <thread>

#include "core/metrics/metrics.h"
#include "core/run/run_directory.h"
#include "core/run/status.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using test::error_text;
using test::put;
using test::ScratchDirectory;
using Status = RunStatus::State;

/// A run's directory with metrics up to this step: two of training, then one of validation.
fs::path make_run(const ScratchDirectory& scratch, const std::string& name, int64_t step) {
  const fs::path directory = scratch / name;
  fs::create_directories(directory);
  put(directory / "identity.json", "{}");
  put(directory / "lock", "1\n");
  MetricsWriter lines(directory / "metrics.jsonl");
  lines.append({.step = step - 1, .split = "train", .loss = 3, .samples_per_s = 100});
  lines.append({.step = step, .split = "train", .loss = 2, .samples_per_s = 50});
  lines.append({.step = step, .split = "validation", .loss = 2.5, .metrics = {{"top1", 0.5}, {"top5", 1}}});
  return directory;
}

RunCondition state_at(const fs::path& directory) {
  const auto run = look_at_run(directory);
  REQUIRE(run);
  return run->state;
}

}  // namespace

TEST_CASE("runs: the state follows from the status, the lock and the summary") {
  const ScratchDirectory scratch;
  const fs::path directory = make_run(scratch, "a", 5);
  CHECK(state_at(directory) == RunCondition::lost);
  write_summary(directory / "summary.json", {{"finished", false}});
  CHECK(state_at(directory) == RunCondition::lost);
  write_summary(directory / "summary.json", {{"finished", true}});
  CHECK(state_at(directory) == RunCondition::finished);
  const std::pair<Status, RunCondition> states[] = {{Status::running, RunCondition::lost},
                                                    {Status::saved, RunCondition::saved},
                                                    {Status::paused, RunCondition::paused},
                                                    {Status::failed, RunCondition::failed},
                                                    {Status::finished, RunCondition::finished}};
  for (const auto& [written, seen] : states) {
    write_status(directory / kStatusFile, {.state = written, .step = 5, .steps = 9});
    CHECK(state_at(directory) == seen);
  }
  fs::remove(directory / "lock");
  CHECK(state_at(directory) == RunCondition::finished);
}

TEST_CASE("runs: a directory that a process holds is running, whatever the last one wrote") {
  const ScratchDirectory scratch;
  const fs::path directory = scratch / "a";
  const RunDirectory held(directory, *parse_identity("a"));
  put(directory / "metrics.jsonl", "");
  CHECK(state_at(directory) == RunCondition::running);
  for (Status state : {Status::running, Status::saved, Status::failed}) {
    write_status(directory / kStatusFile, {.state = state, .exit_code = 75, .message = "old"});
    CHECK(state_at(directory) == RunCondition::running);
    CHECK_FALSE(look_at_run(directory)->exit_code);
    CHECK(look_at_run(directory)->message.empty());
  }
}

TEST_CASE("runs: looking keeps no run from starting") {
  const ScratchDirectory scratch;
  const fs::path directory = make_run(scratch, "a", 1);
  fs::remove(directory / "identity.json");
  fs::remove(directory / "metrics.jsonl");
  const FileDescriptor held = open_file(directory / "lock", O_RDONLY);
  REQUIRE(::flock(held.get(), LOCK_SH | LOCK_NB) == 0);
  std::thread looker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ::flock(held.get(), LOCK_UN);
  });
  const RunDirectory started(directory, *parse_identity("a"));
  looker.join();
}

TEST_CASE("runs: numbers come from the metrics and the status") {
  const ScratchDirectory scratch;
  const fs::path directory = make_run(scratch, "a", 5);
  MetricsWriter lines(directory / "metrics.jsonl");
  lines.append({.step = 10, .split = "validation", .loss = 9, .metrics = {{"top1", 0.75}, {"top5", 0}}});
  lines.append({.step = 11, .split = "train", .loss = 1.5, .samples_per_s = 60});
  lines.append({.step = 11, .split = "validation", .loss = 9, .metrics = {{"top1", std::nan("")}}});
  lines.append({.step = 12, .split = "validation", .loss = 9, .metrics = {{"top1", 0.25}, {"top5", 0}}});
  const int64_t before = std::time(nullptr);
  auto run = look_at_run(directory);
  CHECK(run->step == 12);
  CHECK_FALSE(run->steps);
  CHECK(run->metric == "top1");
  CHECK(run->best == 0.75);
  CHECK(run->best_step == 10);
  CHECK(run->larger_is_better);
  CHECK(run->loss == 1.5);
  CHECK(run->samples_per_s == 60);
  CHECK(std::abs(run->updated - before) < 60);
  write_status(directory / kStatusFile,
               {.state = Status::failed, .step = 14, .steps = 20, .exit_code = 70, .message = "why"});
  run = look_at_run(directory);
  CHECK(run->step == 14);
  CHECK(run->steps == 20);
  CHECK(run->exit_code == 70);
  CHECK(run->message == "why");
  fs::create_directories(directory / "checkpoints" / "step-00000015");
  CHECK(look_at_run(directory)->step == 15);
}

TEST_CASE("runs: without other metrics the best is the least validation loss") {
  const ScratchDirectory scratch;
  const fs::path directory = make_run(scratch, "a", 5);
  fs::remove(directory / "metrics.jsonl");
  MetricsWriter lines(directory / "metrics.jsonl");
  for (double loss : {std::nan(""), 3.0, 2.0, 4.0})
    lines.append({.step = 1, .split = "validation", .loss = loss});
  CHECK(look_at_run(directory)->metric == "loss");
  CHECK(look_at_run(directory)->best == 2);
  CHECK_FALSE(look_at_run(directory)->larger_is_better);
}

TEST_CASE(
    "runs: the best value is the one of the metric's direction, and unknown where no task has the metric") {
  const ScratchDirectory scratch;
  for (const auto& [metric, best] : {std::pair<const char*, std::optional<double>>{"top1", 0.75},
                                     {"ema_top1", 0.75},
                                     {"ema_loss", 0.25},
                                     {"another_loss", std::nullopt}}) {
    INFO(metric);
    const fs::path directory = make_run(scratch, metric, 5);
    fs::remove(directory / "metrics.jsonl");
    MetricsWriter lines(directory / "metrics.jsonl");
    for (double value : {0.5, 0.25, 0.75})
      lines.append({.step = 1, .split = "validation", .loss = 1, .metrics = {{metric, value}}});
    CHECK(look_at_run(directory)->metric == metric);
    CHECK(look_at_run(directory)->best == best);
  }
}

TEST_CASE("runs: throughput is the median of the last hundred intervals, the loss that of the last one") {
  const ScratchDirectory scratch;
  const fs::path directory = make_run(scratch, "a", 1);
  MetricsWriter lines(directory / "metrics.jsonl");
  for (int64_t step = 2; step <= 300; ++step) {
    const auto number = static_cast<double>(step);
    lines.append(
        {.step = step, .split = "train", .loss = number, .samples_per_s = step <= 200 ? 1e6 : number});
  }
  CHECK(look_at_run(directory)->loss == 300);
  CHECK(look_at_run(directory)->samples_per_s == 251);
}

TEST_CASE("runs: lines that are none are passed over, and files of these names that are none are not read") {
  const ScratchDirectory scratch;
  const fs::path directory = make_run(scratch, "a", 5);
  {
    std::ofstream lines(directory / "metrics.jsonl", std::ios::app);
    lines << "\n{}\n{\"split\":\"train\"}\nnonsense\n{\"step\":99,\"updates\":9,\"split\":\"train\",\"lo";
  }
  CHECK(look_at_run(directory)->step == 5);
  CHECK(look_at_run(directory)->loss == 2);
  for (const char* name : {"status.json", "summary.json", "lock", "metrics.jsonl"}) {
    fs::remove(directory / name);
    REQUIRE(::mkfifo((directory / name).c_str(), 0600) == 0);
  }
  CHECK(state_at(directory) == RunCondition::lost);
  CHECK_FALSE(look_at_run(directory)->loss);
}

TEST_CASE("runs: all below a directory are found, by path, and none within another") {
  const ScratchDirectory scratch;
  for (const char* name : {"b", "a/x", "b/checkpoints/inner", "1/2/3/4", "1/2/3/4b/5", ".hidden", "c"})
    make_run(scratch, name, 1);
  fs::create_directory_symlink(scratch / "b", scratch / "link");
  fs::create_directory(scratch / "empty");
  fs::create_directory_symlink(scratch.path(), scratch / "empty" / "cycle");
  put(scratch / "file", "");
  std::vector<std::string> names;
  for (const RunOverview& run : list_runs(scratch.path()))
    names.push_back(run.directory.lexically_relative(scratch.path()).string());
  CHECK(names == std::vector<std::string>{"1/2/3/4", "a/x", "b", "c"});
  REQUIRE(list_runs(scratch / "b").size() == 1);
  CHECK(list_runs(scratch / "b")[0].directory == scratch / "b");
  CHECK(list_runs(scratch / "empty").empty());
  error_text(ExitCode::io, [&] { list_runs(scratch / "none"); });
  error_text(ExitCode::io, [&] { list_runs(scratch / "file"); });
}

}  // namespace trainer
