// SPDX-License-Identifier: Apache-2.0
#include "core/engine/agreement.h"

#include <array>
#include <thread>
#include "tests/catch.h"

#include "core/data/images/rows.h"
#include "core/data/images/synthetic.h"
#include "core/train/loop.h"
#include "cpu/backend.h"
#include "tests/engine/counting_new.h"
#include "tests/engine/late_backend.h"
#include "tests/host/quiet_log.h"
#include "tests/reference/networks.h"
#include "tests/reference/thread_group.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

constexpr int64_t kVotingRows = 4, kVotingSamples = 40, kVotingSteps = 20, kLag = 3;
const Shape kVotingShape = {1, 6, 6};

/// Writes nothing; records the steps at which it should save.
class NotedSaves final : public Checkpointer {
 public:
  /// It is time to save once step `overdue_after` is enqueued, and not again after the save.
  explicit NotedSaves(int64_t overdue_after) : overdue_after_(overdue_after) {}

  bool is_due(int64_t step) const override {
    enqueued = step;
    return false;
  }
  bool is_overdue() const override { return enqueued >= overdue_after_ && saved.empty(); }
  bool is_best(const LoopState&) const override { return false; }
  void save(const LoopState& state) override { saved.push_back(state.step); }
  void report() override {}
  void save_now(const LoopState& state) override { at_end = state.step; }
  std::optional<LoopState> restore() override { return std::nullopt; }

  mutable int64_t enqueued = 0;
  std::vector<int64_t> saved;
  int64_t at_end = -1;

 private:
  int64_t overdue_after_;
};

/// A sample that cannot be read ends the run.
class FailingSource final : public ImageSource {
 public:
  FailingSource(const ImageSource& source, int64_t failing) : source_(source), failing_(failing) {}
  int64_t size() const override { return source_.size(); }
  Shape sample_shape() const override { return source_.sample_shape(); }
  int64_t classes() const override { return source_.classes(); }
  int64_t resident_bytes() const override { return source_.resident_bytes(); }
  void check_labels(const AllowedLabels& allowed) const override { source_.check_labels(allowed); }
  void read(int64_t index, Image& into) const override {
    if (index == failing_) throw Error(ExitCode::data, "the sample is lost");
    source_.read(index, into);
  }

 private:
  const ImageSource& source_;
  int64_t failing_;
};

/// Settings of a run.
struct Wishes {
  int64_t stop_after = kVotingSteps;  ///< steps enqueued; alone
  int64_t stop_in_round = 1000;       ///< among others; called once in each round
  int64_t overdue_after = kVotingSteps;
  int64_t failing_sample = -1;
  int64_t workers = 1;
  int64_t validation_interval = 0;
  int64_t verify_interval = 0;
  uint64_t seed = 1;  ///< of the weights: ranks with different ones are as if a bit had flipped
};

struct Outcome {
  std::string stopped_for, error;
  LoopState state;
  std::vector<int64_t> saved;
  int64_t saved_at_end = 0, error_code = 0;
};

Program voting_program(int64_t micro_batches) {
  return training_program(network_from("{input: [1, 6, 6], layers: [flatten, {linear: 4}]}"), kVotingRows,
                          *optimizer_from("{name: sgd}"), std::vector<float>(kVotingSteps, 0.1f),
                          {accumulate(micro_batches)});
}

/// Trains on one rank. No assertions: it runs in threads too.
Outcome train_on_rank(const Backend& backend, ProcessGroup& group, const Wishes& wishes,
                      const test::ScratchDirectory& scratch) {
  test::QuietLog quiet;
  const auto source = make_synthetic(7, Split::train, kVotingSamples, kVotingShape, 4),
             held_out = make_synthetic(7, Split::val, 40, kVotingShape, 4);
  const FailingSource samples(*source, wishes.failing_sample);
  Diagnostics diagnostics;
  const TransformList none;
  const TransformChain chain(none, kVotingShape, diagnostics);
  const Program program = voting_program(1);
  const Plan plan = make_plan(program, *backend.planner);
  const Loading loading{.workers = wishes.workers,
                        .prefetch = 2,
                        .kept = InputFeed::kept(plan),
                        .allocate = [&](int64_t bytes) { return backend.device->allocate_batch(bytes); }};
  const BatchInputs inputs = batch_inputs(program);
  const TrainingBatches training{
      .seed = 1, .order = TrainingOrder(kVotingSamples, kVotingRows, true), .micro_batch = kVotingRows};
  DataPipeline data(BatchMaker(make_image_rows(samples, chain, inputs, &training), inputs, training),
                    loading);
  DataPipeline validation(
      BatchMaker(make_image_rows(*held_out, chain, inputs), inputs, EvaluationBatches{40, kVotingRows}),
      loading);
  Executable executable(plan, *backend.device, true);
  initialize(executable, wishes.seed);

  const LoopSettings settings{.steps = kVotingSteps,
                              .samples_per_epoch = kVotingSamples,
                              .batch = {.global_batch = kVotingRows, .micro_batch = kVotingRows},
                              .validation_interval = wishes.validation_interval,
                              .verify_interval = wishes.verify_interval,
                              .validation_samples = 40};
  NotedSaves saves(wishes.overdue_after);
  MetricsSinks metrics(scratch.path(), {}, {});
  UnreadableList unreadable(scratch / "bad.txt", quiet.log);
  const bool alone = group.size() == 1;
  const auto stop_reason = [&, asked = int64_t{0}]() mutable -> std::string {
    const bool stops = alone ? saves.enqueued >= wishes.stop_after : ++asked > wishes.stop_in_round;
    return stops ? "the test" : "";
  };
  TrainingLoop loop(
      executable, group, data, wishes.validation_interval > 0 ? &validation : nullptr, settings,
      {.metrics = metrics, .progress = quiet.screen, .log = quiet.log, .unreadable = unreadable}, &saves,
      stop_reason);
  Outcome outcome;
  try {
    outcome.stopped_for = loop.run(LoopState{}).reason;
  } catch (const Error& error) {
    outcome.error = error.what();
    outcome.error_code = static_cast<int64_t>(error.code());
  }
  outcome.state = loop.state();
  outcome.saved = saves.saved;
  outcome.saved_at_end = saves.at_end;
  return outcome;
}

/// Late devices from one that is done at once to one that waits as long as it may.
constexpr size_t kLongest[] = {0, 2, 9, 40, SIZE_MAX};

Outcome train_late(const Wishes& wishes, size_t longest) {
  const auto cpu = make_cpu_backend(1);
  LateBackend late(cpu);
  late.late().set_longest_queue(longest);
  SingleProcess group;
  return train_on_rank(late, group, wishes, test::ScratchDirectory());
}

Outcome train_now(const Wishes& wishes) {
  const auto cpu = make_cpu_backend(1);
  SingleProcess group;
  return train_on_rank(cpu, group, wishes, test::ScratchDirectory());
}

/// Two ranks with devices that are late in different ways.
std::vector<Outcome> train_two(const Wishes& first, const Wishes& second, size_t longest,
                               test::ThreadGroup& table) {
  std::vector<Outcome> outcomes(2);
  const std::array<test::ScratchDirectory, 2> scratch;
  {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const auto cpu = make_cpu_backend(1);
        LateBackend late(cpu);
        late.late().set_longest_queue(rank == 0 ? longest : 5);
        test::ThreadProcessGroup seat(table, rank);
        outcomes[rank] = train_on_rank(late, seat, rank == 0 ? first : second, scratch[rank]);
      });
    }
  }
  return outcomes;
}

}  // namespace

TEST_CASE("one rank: its vote is the result, its wish to stop holds at once, and nothing is allocated") {
  SingleProcess rank;
  bool stops = false, saves = false;
  Agreement agreement(rank, [&] { return Vote{.stop = stops, .save = saves}; });
  CHECK_FALSE(agreement.leaves_now());
  CHECK_THROWS_AS(agreement.result(), std::logic_error);
  saves = true;
  agreement.vote();
  saves = false;
  agreement.vote();
  CHECK(agreement.result() == Vote{.save = true});
  CHECK(agreement.result() == Vote{});
  stops = true;
  CHECK(agreement.leaves_now());
  const int64_t before = own_allocations();
  for (int i = 0; i < 1000; ++i) {
    agreement.vote();
    agreement.result();
  }
  CHECK(own_allocations() == before);
  for (int64_t i = 0; i < ProcessGroup::kMaxOpenRounds; ++i) agreement.vote();
  CHECK_THROWS_AS(agreement.vote(), std::logic_error);
  CHECK_THROWS_WITH(agreement.fail(std::make_exception_ptr(Error(ExitCode::data, "lost"))), "lost");
}

TEST_CASE("two ranks: both do what one wants, and neither leaves before") {
  test::ThreadGroup table(2);
  test::ThreadProcessGroup first(table, 0), second(table, 1);
  Agreement asking(first, [] { return Vote{.stop = true}; }), other(second);
  CHECK_FALSE(asking.leaves_now());
  for (Agreement* each : {&asking, &other}) each->vote();
  CHECK(asking.result().stop);
  CHECK(other.result().stop);
  asking.fail(std::make_exception_ptr(Error(ExitCode::data, "lost")));
  for (Agreement* each : {&asking, &other}) each->vote();
  CHECK_THROWS_WITH(asking.result(), "lost");
  CHECK(test::error_text(ExitCode::data, [&] { other.result(); }) ==
        "another rank has failed; its own message says why");
}

TEST_CASE("a run stops after the same step however late its device is") {
  const Wishes wishes{.stop_after = 9};
  const Outcome expected = train_now(wishes);
  CHECK(expected.stopped_for == "the test");
  CHECK(expected.state.step == 9);
  CHECK(expected.saved_at_end == 9);
  for (const size_t longest : kLongest) {
    const Outcome found = train_late(wishes, longest);
    INFO(longest);
    CHECK(found.stopped_for == "the test");
    CHECK(found.state == expected.state);
    CHECK(found.saved_at_end == 9);
  }
}

TEST_CASE("a run saves by its clock after the same step however late its device is, a fixed lag later") {
  const Wishes wishes{.overdue_after = 7};
  const Outcome expected = train_now(wishes);
  CHECK(expected.saved == std::vector<int64_t>{8});
  CHECK(expected.stopped_for.empty());
  for (const size_t longest : kLongest) {
    const Outcome found = train_late(wishes, longest);
    INFO(longest);
    CHECK(found.saved == std::vector<int64_t>{8 + kLag});
    CHECK(found.state == expected.state);
  }
}

TEST_CASE("two ranks: a vote of one stops both after the same step") {
  for (const size_t longest : kLongest) {
    test::ThreadGroup table(2);
    const auto outcomes = train_two({}, {.stop_in_round = 9}, longest, table);
    INFO(longest);
    CHECK(outcomes[0].stopped_for == "another rank is to stop");
    CHECK(outcomes[1].stopped_for == "the test");
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.error.empty());
      CHECK(outcome.state.step == 10 + kLag);
      CHECK(outcome.saved_at_end == 10 + kLag);
    }
    CHECK(table.rounds(0) == table.rounds(1));
  }
}

TEST_CASE("two ranks: a vote of one ends an evaluation of both at the same batch") {
  for (const size_t longest : kLongest) {
    test::ThreadGroup table(2);
    // The evaluation after step 6 has rounds 6 to 15.
    const auto outcomes =
        train_two({.stop_in_round = 8, .validation_interval = 6}, {.validation_interval = 6}, longest, table);
    INFO(longest);
    for (const Outcome& outcome : outcomes) {
      CHECK_FALSE(outcome.stopped_for.empty());
      CHECK(outcome.state.step == 6);
      CHECK(outcome.state.validated == 0);
    }
    CHECK(table.rounds(0) == table.rounds(1));
    CHECK(table.rounds(0) < 16);
  }
}

TEST_CASE("two ranks: both save by the clock of one") {
  test::ThreadGroup table(2);
  const auto outcomes = train_two({.overdue_after = 7}, {.overdue_after = kVotingSteps + 1}, 9, table);
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.saved == std::vector<int64_t>{8 + kLag});
    CHECK(outcome.state.step == kVotingSteps);
  }
  CHECK(table.rounds(0) == table.rounds(1));
}

TEST_CASE("two ranks: weights are compared before each save, and those that differ are not saved") {
  const auto train = [](Wishes first, const Wishes& second) {
    test::ThreadGroup table(2);
    return train_two(first, second, 2, table);
  };
  // Long before the ranks compare their weights at an interval.
  const Wishes wishes{.overdue_after = 7, .verify_interval = 1000};
  for (const Outcome& outcome : train(wishes, wishes)) {
    CHECK(outcome.error.empty());
    CHECK(outcome.saved == std::vector<int64_t>{8 + kLag});
    CHECK(outcome.saved_at_end == kVotingSteps);
    CHECK(outcome.state.is_verified());
  }
  Wishes differing = wishes;
  differing.seed = 2;
  for (const Outcome& outcome : train(wishes, differing)) {
    CHECK_THAT(outcome.error,
               Catch::Matchers::ContainsSubstring("after step 11 the ranks' weights are not the same"));
    CHECK(outcome.error_code == 70);
    CHECK(outcome.saved.empty());
    CHECK(outcome.saved_at_end == -1);
  }
  // The save at the end counts as one.
  for (const Outcome& outcome : train({.verify_interval = 1000}, {.verify_interval = 1000, .seed = 2})) {
    CHECK(outcome.error_code == 70);
    CHECK(outcome.saved_at_end == -1);
  }
  // If ranks are never to compare them, checkpoints do not say so either.
  for (const Outcome& outcome : train({}, {.seed = 2})) {
    CHECK(outcome.error.empty());
    CHECK(outcome.saved_at_end == kVotingSteps);
    CHECK_FALSE(outcome.state.is_verified());
  }
}

TEST_CASE("two ranks: unreadable data of one ends both, after the same rounds") {
  for (const size_t longest : kLongest) {
    test::ThreadGroup table(2);
    const auto outcomes =
        train_two({}, {.failing_sample = 17, .workers = longest % 2 == 0 ? 0 : 1}, longest, table);
    INFO(longest);
    CHECK(outcomes[0].error == "another rank has failed; its own message says why");
    CHECK(outcomes[0].error_code == 65);
    CHECK(outcomes[1].error == "the sample is lost");
    CHECK(outcomes[1].error_code == 65);
    CHECK(outcomes[0].state.step == outcomes[1].state.step);
    CHECK(outcomes[0].saved_at_end == -1);
    CHECK(outcomes[1].saved_at_end == -1);
    CHECK(table.rounds(0) == table.rounds(1));
  }
}

TEST_CASE("one rank: data that cannot be read ends the run in the place of its batch") {
  const Outcome outcome = train_now({.failing_sample = 17});
  CHECK(outcome.error == "the sample is lost");
  CHECK(outcome.error_code == 65);
  CHECK(outcome.state.step < kVotingSamples / kVotingRows);
  CHECK(train_now({.failing_sample = 17, .workers = 0}).state == outcome.state);
}

}  // namespace trainer
