// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_state.h"

#include <cmath>
#include "tests/catch.h"

#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::error_text;

RunState sample() {
  RunState state;
  state.loop = {
      .step = 120,
      .updates = 118,
      .validated = 100,
      .verified = 80,
      .interval_steps = 20,
      .interval_loss = 0.1 + 0.2,
      .train_loss = 1.0 / 3,
      .loss_scale = 65536,
      .guard = {.rollbacks = 2, .overflows = 7, .at_smallest = 3},
      .early_stop = EarlyStopState{.metric = "loss", .best = 1.0 / 3, .best_step = 60, .bad = 2},
      .plateau = PlateauState{.metric = "top1", .best = 0.7, .bad = 4, .cooldown = 1, .factor = 0.1 * 0.1},
      .last = {{"loss", 0.1}, {"top1", 0.9}},
      .best = {{"loss", 1e-300}, {"top1", 0.95}},
      .unreadable = {{"train", {3, 1 << 30}}, {"val", {0}}}};
  state.epoch = 1.0 / 7;
  state.samples = 3840;
  state.best = {"top1", 0.95, 100};
  state.loop.kept = {"loss", 1e-300, 80};
  state.mathematics = "a: 1\n\"b\": \"\xc3\xa9\"\n";
  state.recipe = "run: {}\n";
  state.micro_batch_size = 16;
  state.facts = {{"threads", "2"}};
  state.data = {{"samples", "60000"}, {"contents", "0123456789abcdef"}};
  state.about = {{"classes", "[\"ant\"]"}};
  state.algorithms = {{"conv 3x3", "winograd"}};
  state.wall = {{"time", "now"}};
  return state;
}

RunState read_again(const RunState& state) {
  return parse_run_state(to_json(state), "state.json");
}

std::string refused(const std::string& text) {
  return error_text(ExitCode::data, [&] { parse_run_state(text, "x/state.json"); });
}

}  // namespace

TEST_CASE("the best step of an earlier version's state gets its metric from the recipe") {
  RunState state = sample();
  state.best = {.metric = {}, .value = 0, .step = 100};
  state.loop.kept.reset();
  state.recipe = "checkpoint:\n  keep_latest: 2\n  keep_best: top1\n";
  const RunState again = read_again(state);
  CHECK(again.best == BestEvaluation{"top1", 0.95, 100});
  CHECK(again.loop.kept == again.best);
  for (const char* other : {"null", "top5"}) {
    state.recipe = std::string("checkpoint:\n  keep_best: ") + other + "\n";
    CHECK(read_again(state).best == state.best);
    CHECK_FALSE(read_again(state).loop.kept);
  }
}

TEST_CASE("a run's state is read as it was written, to the last bit") {
  const RunState state = sample(), again = read_again(state);
  CHECK(again.loop == state.loop);
  CHECK(again.epoch == state.epoch);
  CHECK(again.samples == state.samples);
  CHECK(again.best == state.best);
  CHECK(again.mathematics == state.mathematics);
  CHECK(again.recipe == state.recipe);
  CHECK(again.micro_batch_size == state.micro_batch_size);
  CHECK(again.facts == state.facts);
  CHECK(again.data == state.data);
  CHECK(again.about == state.about);
  CHECK(again.algorithms == state.algorithms);
  CHECK(again.wall == state.wall);
  CHECK(to_json(again) == to_json(state));
}

TEST_CASE("a state without a loss scale, and one with numbers that JSON does not have") {
  RunState state = sample();
  state.loop.loss_scale.reset();
  state.loop.train_loss = HUGE_VAL;
  state.loop.best["loss"] = -HUGE_VAL;
  state.loop.last["loss"] = std::nan("");
  state.loop.early_stop.reset();
  state.loop.plateau->best.reset();
  const RunState again = read_again(state);
  CHECK_FALSE(again.loop.loss_scale);
  CHECK_FALSE(again.loop.early_stop);
  CHECK(again.loop.plateau == state.loop.plateau);
  CHECK(again.loop.train_loss == HUGE_VAL);
  CHECK(again.loop.best.at("loss") == -HUGE_VAL);
  CHECK(std::isnan(again.loop.last.at("loss")));
}

TEST_CASE("a state of a version that kept nothing of its data is read") {
  std::string text = to_json(sample());
  for (const char* name : {"data", "about", "unreadable", "early_stop", "plateau", "verified_step"}) {
    const size_t at = text.find(std::string("\"") + name + "\"");
    REQUIRE(at != std::string::npos);
    text.replace(at + 1, 1, "_");
  }
  const RunState state = parse_run_state(text, "state.json");
  CHECK(state.data.empty());
  CHECK(state.about.empty());
  CHECK(state.loop.unreadable.empty());
  CHECK(!state.loop.early_stop.has_value());
  CHECK(!state.loop.plateau.has_value());
  CHECK(state.loop.step == 120);
  CHECK(state.loop.verified == 0);
  CHECK_FALSE(state.loop.is_verified());
}

TEST_CASE("a damaged state is refused with what is wrong in it") {
  const std::string text = to_json(sample());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    return changed.replace(at, from.size(), to);
  };
  CHECK_THAT(refused(""), ContainsSubstring("x/state.json: expected all of it to be an object"));
  CHECK_THAT(refused("[]"), ContainsSubstring("an object"));
  CHECK_THAT(refused(text.substr(0, text.size() / 2)), ContainsSubstring("an object"));
  CHECK_THAT(refused(with("\"format\": 1", "\"format\": 2")), ContainsSubstring("has format 2"));
  CHECK_THAT(refused(with("\"step\": 120", "\"step\": -1")), ContainsSubstring("progress.step"));
  CHECK_THAT(refused(with("\"step\": 120", "\"step\": 1.5")), ContainsSubstring("a whole number"));
  CHECK_THAT(refused(with("\"step\"", "\"stop\"")), ContainsSubstring("progress.step to be there"));
  CHECK_THAT(refused(with("\"winograd\"", "7")), ContainsSubstring("algorithms"));
  CHECK_THAT(refused(with("0.95", "\"high\"")), ContainsSubstring("progress.best"));
  CHECK_THAT(refused(with("1073741824", "-1")), ContainsSubstring("progress.unreadable"));
  CHECK_THAT(refused(with("\"60000\"", "60000")), ContainsSubstring("expected data to be text"));
}

}  // namespace trainer
