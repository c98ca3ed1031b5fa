// SPDX-License-Identifier: Apache-2.0
#include "core/session/session.h"

#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>
#include "tests/catch.h"

#include "core/run/status.h"
#include "core/session/start.h"
#include "core/storage/checkpoint.h"
#include "cpu/backend.h"
#include "tests/host/quiet_log.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using test::contents;
using test::error_text;
using test::ScratchDirectory;

const char* const kRecipe = R"(version: 1
run: {name: small, seed: 3}
model:
  input: [1, 8, 8]
  layers: [flatten, {linear: 16}, tanh, {linear: 5}]
data: {format: synthetic, synthetic: {train_samples: 160, val_samples: 40}}
training: {max_duration: 20ba, global_batch_size: 16}
optimizer: {name: sgd, lr: 0.05, momentum: 0.9}
checkpoint: {interval: 4ba}
logging: {interval: 1ba}
)";

std::shared_ptr<const Recipe> recipe_in(const fs::path& directory, std::vector<std::string> overrides = {}) {
  overrides.push_back("run.output_dir=" + directory.string());
  return Recipe::parse(kRecipe, "small.yaml", overrides);
}

Backend open_cpu(const RunSpec&, Tuning&, const DeviceChoice&, ProcessGroup*) {
  return make_cpu_backend(1);
}

ExitCode run(const fs::path& directory, const std::vector<std::string>& overrides = {},
             const OpenDevice& open = open_cpu) {
  StopSignals signals;
  test::QuietLog quiet;
  return run_session(recipe_in(directory, overrides), open, signals, quiet.screen);
}

RunStatus status_of(const fs::path& directory) {
  const auto status = read_status(directory / kStatusFile);
  REQUIRE(status);
  return *status;
}

/// A run of `steps` steps that is stopped by a signal while it trains.
void run_and_stop(const fs::path& directory) {
  std::jthread stopper([&](const std::stop_token& over) {
    while (list_checkpoints(checkpoint_root(directory)).empty() && !over.stop_requested())
      std::this_thread::yield();
    if (!over.stop_requested()) ::kill(::getpid(), SIGTERM);
  });
  CHECK(run(directory, {"training.max_duration=100000ba"}) == ExitCode::requeue);
}

}  // namespace

TEST_CASE("session: a run is trained to its end, and then left alone") {
  const ScratchDirectory scratch;
  const fs::path directory = scratch / "run";
  CHECK(run(directory) == ExitCode::done);
  CHECK(status_of(directory).state == RunStatus::State::finished);
  CHECK(status_of(directory).step == 20);
  const auto summary = nlohmann::json::parse(contents(directory / "summary.json"));
  CHECK(summary["finished"] == true);
  CHECK(summary["steps"] == 20);
  for (const char* file : {kModelFile, "metrics.jsonl", "recipe.yaml", "identity.json", "log.txt"})
    CHECK(fs::exists(directory / file));
  const auto written = fs::last_write_time(directory / kModelFile);
  CHECK(run(directory) == ExitCode::done);
  CHECK(fs::last_write_time(directory / kModelFile) == written);
}

TEST_CASE("session: a signal saves the run, and the same call goes on from there") {
  const ScratchDirectory scratch;
  const fs::path directory = scratch / "run";
  run_and_stop(directory);
  const RunStatus stopped = status_of(directory);
  CHECK(stopped.state == RunStatus::State::saved);
  CHECK(stopped.message == "SIGTERM");
  CHECK(stopped.exit_code == 75);
  CHECK(checkpoint_step(list_checkpoints(checkpoint_root(directory)).front()) == stopped.step);
  const std::string steps = std::to_string(stopped.step + 10) + "ba";
  const std::vector<std::string> longer = {"training.max_duration=" + steps,
                                           "run.allow_changes=[training.max_duration]"};
  CHECK(run(directory, longer) == ExitCode::done);
  CHECK_THAT(contents(directory / "log.txt"),
             ContainsSubstring("resuming after step " + std::to_string(stopped.step)));
  CHECK(run(scratch / "whole", {"training.max_duration=" + steps}) == ExitCode::done);
  CHECK(contents(directory / kModelFile) == contents(scratch / "whole" / kModelFile));
}

TEST_CASE("session: a run pauses after a step, and a larger value continues it with the same bits") {
  // The evaluation at step 6 is not one of the recipe's: neither the schedule nor the early stop follows it.
  const std::vector<std::string> recipe = {
      "validation.interval=4ba", "validation.early_stop={metric: loss, patience: 1000}",
      "lr_scheduler={name: plateau, patience: 1, threshold: 100, threshold_mode: abs}"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), recipe.begin(), recipe.end());
    return more;
  };
  const ScratchDirectory scratch;
  const fs::path directory = scratch / "run";
  for (int started = 0; started < 2; ++started) {
    CHECK(run(directory, with({"run.stop_after=6ba"})) == ExitCode::done);
    CHECK(status_of(directory).state == RunStatus::State::paused);
    CHECK(status_of(directory).step == 6);
    CHECK_THAT(status_of(directory).message, StartsWith("paused after step 6 of 20"));
    CHECK_THAT(contents(directory / "metrics.jsonl"),
               ContainsSubstring(R"("step":6,"updates":6,"epoch":0.6,"split":"validation")"));
    CHECK_FALSE(fs::exists(directory / "summary.json"));
    CHECK(checkpoint_step(list_checkpoints(checkpoint_root(directory)).front()) == 6);
  }
  CHECK(run(directory, with({"run.stop_after=8ba"})) == ExitCode::done);
  CHECK(status_of(directory).step == 8);
  CHECK(run(directory, with({"run.stop_after=20ba"})) == ExitCode::done);
  CHECK(status_of(directory).state == RunStatus::State::finished);
  CHECK(run(scratch / "whole", recipe) == ExitCode::done);
  CHECK(contents(directory / kModelFile) == contents(scratch / "whole" / kModelFile));
  CHECK_THAT(contents(directory / "log.txt"), ContainsSubstring("learning rate times"));
}

TEST_CASE("session: a run that fails says so in its status, and throws") {
  const ScratchDirectory scratch;
  const fs::path directory = scratch / "run";
  const std::string text = error_text(ExitCode::internal, [&] {
    run(directory, {"optimizer.lr=3e38", "lr_scheduler=constant"});
  });
  CHECK_THAT(text, ContainsSubstring("the loss became"));
  CHECK(status_of(directory).state == RunStatus::State::failed);
  CHECK(status_of(directory).message == text);
  CHECK(status_of(directory).exit_code == 70);
}

TEST_CASE("session: a run whose directory is moved ends, and goes on once it is back") {
  const ScratchDirectory scratch;
  const fs::path directory = scratch / "run", away = scratch / "away";
  std::jthread mover([&](const std::stop_token& over) {
    while (list_checkpoints(checkpoint_root(directory)).empty() && !over.stop_requested())
      std::this_thread::yield();
    std::error_code ignored;
    fs::rename(directory, away, ignored);
  });
  const std::string endless = "training.max_duration=100000ba";
  const std::string text = error_text(ExitCode::io, [&] { run(directory, {endless}); });
  mover.request_stop();
  mover.join();
  CHECK_THAT(text,
             ContainsSubstring("run directory " + directory.string() + " was moved, removed or unmounted"));
  CHECK(scratch.names() == std::set<std::string>{"away"});
  for (const auto& entry : fs::recursive_directory_iterator(away)) {
    const std::string name = entry.path().filename().string();
    CHECK(name.find(".tmp-") == std::string::npos);
  }

  fs::rename(away, directory);
  const int64_t saved = checkpoint_step(list_checkpoints(checkpoint_root(directory)).front());
  fs::remove(directory / "metrics.jsonl");
  const std::string steps = std::to_string(saved + 10) + "ba";
  CHECK(run(directory, {"training.max_duration=" + steps, "run.allow_changes=[training.max_duration]"}) ==
        ExitCode::done);
  CHECK_THAT(contents(directory / "log.txt"),
             ContainsSubstring("resuming after step " + std::to_string(saved)) &&
                 ContainsSubstring("metrics.jsonl is missing"));
}

TEST_CASE("session: a run whose directory is removed leaves nothing in its place") {
  const ScratchDirectory scratch;
  const fs::path directory = scratch / "run";
  std::jthread remover([&](const std::stop_token& over) {
    while (list_checkpoints(checkpoint_root(directory)).empty() && !over.stop_requested())
      std::this_thread::yield();
    std::error_code ignored;
    fs::rename(directory, scratch / "away", ignored);
    fs::remove_all(scratch / "away", ignored);
    fs::create_directory(directory, ignored);
  });
  const std::string text =
      error_text(ExitCode::io, [&] { run(directory, {"training.max_duration=100000ba"}); });
  remover.request_stop();
  remover.join();
  CHECK_THAT(text, ContainsSubstring("was moved, removed or unmounted"));
  std::vector<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) left.push_back(entry.path().string());
  CHECK(left == std::vector<std::string>{});
}

TEST_CASE("session: a run whose directory another process takes ends, and leaves it to that") {
  const ScratchDirectory scratch;
  const fs::path directory = scratch / "run";
  const std::string other = "77 on elsewhere\nstart 0\n", endless = "training.max_duration=100000ba";
  std::jthread taker([&](const std::stop_token& over) {
    while (list_checkpoints(checkpoint_root(directory)).empty() && !over.stop_requested())
      std::this_thread::yield();
    test::put(scratch / "lock", other);
    std::error_code ignored;
    fs::rename(scratch / "lock", directory / "lock", ignored);
  });
  const std::string text = error_text(ExitCode::io, [&] { run(directory, {endless}); });
  taker.request_stop();
  taker.join();
  CHECK_THAT(text, ContainsSubstring("was taken over by process 77 on elsewhere"));
  CHECK(contents(directory / "lock") == other);
  CHECK(status_of(directory).state == RunStatus::State::running);  // of which that process reports
  for (const fs::path& path : list_checkpoints(checkpoint_root(directory))) verify_checkpoint(path);
  CHECK_FALSE(fs::exists(directory / kModelFile));
}

TEST_CASE("start: a checkpoint of another run in the run's own directory is refused") {
  const ScratchDirectory scratch;
  const fs::path own = scratch / "own", other = scratch / "other";
  const std::string eight = "training.max_duration=8ba";
  REQUIRE(run(own, {eight}) == ExitCode::done);
  REQUIRE(run(other, {eight, "run.seed=4"}) == ExitCode::done);
  const fs::path newest = list_checkpoints(checkpoint_root(own)).front();
  fs::remove_all(newest);
  fs::copy(list_checkpoints(checkpoint_root(other)).front(), newest, fs::copy_options::recursive);
  CHECK_THAT(error_text(ExitCode::recipe, [&] { choose_start(recipe_in(own, {eight})); }),
             ContainsSubstring("belongs to another run (run.seed is 4 there and 3 here)"));
  CHECK(choose_start(recipe_in(own, {eight, "run.allow_changes=[run.seed]"})).step() == 8);
}

TEST_CASE("session: a run that cannot start leaves its directory free") {
  const ScratchDirectory scratch;
  const auto none = [](const RunSpec&, Tuning&, const DeviceChoice&, ProcessGroup*) -> Backend {
    throw Error(ExitCode::no_device, "no device");
  };
  CHECK(error_text(ExitCode::no_device, [&] { run(scratch / "run", {}, none); }) == "no device");
  CHECK_FALSE(fs::exists(scratch / "run"));
}

TEST_CASE("session: a run that an earlier version has stored as text goes on") {
  const ScratchDirectory scratch;
  const fs::path directory = scratch / "run";
  REQUIRE(run(directory, {"training.max_duration=8ba"}) == ExitCode::done);
  const auto stored = nlohmann::json::parse(contents(directory / "identity.json"));
  const auto recipe = recipe_in(directory, {"training.max_duration=8ba"});
  CHECK(stored["mathematics"] == recipe->identity().mathematics);
  CHECK(stored["hash"] == text_hash(recipe->identity().mathematics));
  CHECK_THAT(error_text(ExitCode::recipe, [&] { run(directory, {"training.max_duration=12ba"}); }),
             ContainsSubstring("(training.max_duration is 8ba there and 12ba here)"));
  CHECK(run(directory, {"training.max_duration=12ba", "run.allow_changes=[training.max_duration]"}) ==
        ExitCode::done);
  CHECK(status_of(directory).step == 12);
}

TEST_CASE("start: run.resume and the directory decide where a run resumes") {
  const ScratchDirectory scratch;
  const fs::path own = scratch / "own", other = scratch / "other";
  CHECK_FALSE(choose_start(recipe_in(own)).from);
  REQUIRE(run(other, {"training.max_duration=8ba"}) == ExitCode::done);

  const std::string from_other = "run.resume=" + other.string();
  const Start start = choose_start(recipe_in(own, {"training.max_duration=8ba", from_other}));
  REQUIRE(start.from);
  CHECK_FALSE(start.is_own);
  CHECK(start.step() == 8);
  CHECK_THAT(error_text(ExitCode::recipe, [&] { choose_start(recipe_in(own, {from_other})); }),
             ContainsSubstring("belongs to another run (training.max_duration is 8ba there and 20ba here)"));
  CHECK(choose_start(recipe_in(own, {from_other, "run.allow_changes=[training]"})).step() == 8);

  const auto same = recipe_in(other, {"training.max_duration=8ba"});
  CHECK(choose_start(same).step() == 8);
  CHECK(choose_start(same).is_own);
  CHECK_THAT(error_text(ExitCode::recipe,
                        [&] {
                          choose_start(recipe_in(other, {"training.max_duration=8ba", "run.resume=never"}));
                        }),
             ContainsSubstring("which \"never\" would discard"));
  require_steps_left(same, choose_start(same), 8);
  CHECK_THROWS(require_steps_left(same, choose_start(same), 7));
}

TEST_CASE("start: a run keeps a searched micro-batch, unless its ranks cannot share it") {
  const ScratchDirectory scratch;
  const auto searched = recipe_in(scratch / "run", {"training.micro_batch_size=auto"});
  Start start;
  CHECK(with_earlier_micro_batch(searched, start).searches_micro_batch());
  start.from.emplace().state.micro_batch_size = 4;
  const RunSpec kept = with_earlier_micro_batch(searched, start);
  CHECK_FALSE(kept.searches_micro_batch());
  CHECK(kept.batch().micro_batch == 4);
  CHECK(kept.batch().micro_batches() == 4);
  CHECK(kept.output() == Shape{4, 5});
  const RunSpec of_eight_ranks(searched, {.rank = 1, .ranks = 8});  // two samples for each
  CHECK(with_earlier_micro_batch(of_eight_ranks, start).searches_micro_batch());
  const auto given = recipe_in(scratch / "run", {"training.micro_batch_size=8"});
  CHECK(with_earlier_micro_batch(given, start).batch().micro_batch == 8);
}

TEST_CASE("start: changed guards are recognised") {
  const ScratchDirectory scratch;
  REQUIRE(run(scratch / "run", {"training.max_duration=8ba"}) == ExitCode::done);
  const auto same = recipe_in(scratch / "run", {"training.max_duration=8ba"});
  const auto changed = recipe_in(scratch / "run", {"training.max_duration=8ba", "guards.nonfinite=skip"});
  Start start = choose_start(same);
  CHECK(guards_of(same, start) == Guards::same);
  CHECK(guards_of(changed, start) == Guards::other);
  require_rollbacks(changed, start);
  start.from->state.loop.guard.rollbacks = 1;
  require_rollbacks(same, start);
  CHECK_THROWS(require_rollbacks(changed, start));
}

TEST_CASE("start: damaged checkpoints of its own do not let a run begin again") {
  const ScratchDirectory scratch;
  const fs::path directory = scratch / "run";
  REQUIRE(run(directory, {"training.max_duration=8ba"}) == ExitCode::done);
  const auto recipe = recipe_in(directory, {"training.max_duration=8ba"});
  for (const fs::path& checkpoint : list_checkpoints(checkpoint_root(directory)))
    fs::resize_file(checkpoint / kModelFile, 7);
  const Start start = choose_start(recipe);
  CHECK_FALSE(start.from);
  CHECK(start.unusable.size() == 2);
  CHECK_THAT(error_text(ExitCode::data, [&] { require_whole(recipe, start); }),
             ContainsSubstring("can be used"));
  require_unchanged(recipe, start);
  fs::remove_all(list_checkpoints(checkpoint_root(directory)).front());
  CHECK_THROWS(require_unchanged(recipe, start));
}

}  // namespace trainer
