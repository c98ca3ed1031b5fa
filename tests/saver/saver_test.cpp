// SPDX-License-Identifier: Apache-2.0
// The saver in the background of training; also run under TSan.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <limits>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/host/process.h"
#include "core/run/best_weights.h"
#include "core/run/checkpoints.h"
#include "core/run/resume.h"
#include "core/run/weights.h"
#include "core/storage/checkpoint.h"
#include "cpu/backend.h"
#include "tests/host/quiet_log.h"
#include "tests/reference/networks.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using test::contents;
using test::error_text;
using test::ScratchDirectory;

constexpr int64_t kRows = 4;
constexpr const char* kKeys = "optimizer:\n  lr: 0.1\n";

/// A small network for which training needs only one call for each step.
struct Training {
  Training() : executable(plan(), *backend.device) {
    initialize(executable, 3);
    for (const char* name : {"images", "labels", "weights", "sample_index"}) {
      const TensorId id = executable.tensor(name);
      const TensorSpec& spec = executable.plan().tensors[static_cast<size_t>(id)].spec;
      memory.push_back(backend.device->allocate_batch(numel(spec.shape) * bytes_per_element(spec.dtype)));
      std::fill_n(memory.back().data(), memory.back().bytes(), std::byte{0});
      if (spec.dtype == DType::f32) fill(memory.back(), numel(spec.shape));
      executable.bind(id, memory.back().data());
    }
  }

  Plan plan() {
    const Network network =
        network_from("{input: [1, 9, 9], layers: [flatten, {linear: 30}, relu, {linear: 3}]}");
    Program program =
        training_program(network, kRows, *optimizer_from("{name: adamw}"), {0.01f, 0.02f}, {fuse_relu()});
    return make_plan(std::move(program), *backend.planner);
  }
  static void fill(Buffer& buffer, int64_t count) {
    RandomStream random(random_key(9, "batch"), 1);
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<float*>(buffer.data())[i] = random.next_uniform();
  }
  void step() { executable.run(executable.entry("train_step")); }

  Backend backend = make_cpu_backend(1);
  Executable executable;
  std::vector<Buffer> memory;
};

/// A training with its checkpoints; its log goes nowhere.
struct Saving {
  explicit Saving(const fs::path& root, CheckpointSettings settings = {.every_steps = 1})
      : checkpoints(
            training.executable, root, settings, LoopSettings{.samples_per_epoch = 1},
            RunState{.mathematics = kKeys}, quiet.log, [] {}, [this] { require_held(); }) {}

  void require_held() const {
    if (is_taken) throw Error(ExitCode::io, "taken over");
  }

  /// The state after a step, evaluated there if `loss` is given.
  LoopState at(int64_t step, std::optional<double> loss = std::nullopt) {
    state.step = step;
    if (loss) {
      state.validated = step;
      state.last["loss"] = *loss;
      if (!state.kept || *loss < state.kept->value) state.kept = {"loss", *loss, step};
      state.best["loss"] = std::min(*loss, state.best.contains("loss") ? state.best["loss"] : *loss);
    }
    return state;
  }

  Training training;
  test::QuietLog quiet;
  std::atomic<bool> is_taken = false;  ///< by another process
  LoopState state;
  Checkpoints checkpoints;
};

std::vector<int64_t> steps_in(const fs::path& root) {
  std::vector<int64_t> steps;
  for (const fs::path& path : list_checkpoints(root)) steps.push_back(checkpoint_step(path));
  return steps;
}

fs::path checkpoint(const fs::path& root, int64_t step) {
  for (const fs::path& path : list_checkpoints(root)) {
    if (checkpoint_step(path) == step) return path;
  }
  FAIL("no checkpoint of step " << step);
  return {};
}

}  // namespace

TEST_CASE("what is written while training goes on is the state of its step, bit for bit") {
  const ScratchDirectory scratch;
  constexpr int64_t kSteps = 12;
  Saving background(scratch / "a", {.every_steps = 1, .keep_latest = kSteps});
  Saving waiting(scratch / "b", {.every_steps = 1, .keep_latest = kSteps});
  for (int64_t step = 1; step <= kSteps; ++step) {
    background.training.step();
    background.checkpoints.save(background.at(step));
    waiting.training.step();
    waiting.checkpoints.save_now(waiting.at(step));
  }
  background.checkpoints.save_now(background.at(kSteps));
  for (int64_t step = 1; step <= kSteps; ++step) {
    CHECK(verify_checkpoint(checkpoint(scratch / "a", step)).step == step);
    for (const char* file : {kModelFile, kOptimizerFile}) {
      CHECK(contents(checkpoint(scratch / "a", step) / file) ==
            contents(checkpoint(scratch / "b", step) / file));
    }
  }
  CHECK(contents(checkpoint(scratch / "a", 1) / kModelFile) !=
        contents(checkpoint(scratch / "a", 2) / kModelFile));
}

TEST_CASE("a first save that no settings foresees is overdue in time, and is the state of its step") {
  const ScratchDirectory scratch;
  Saving run(scratch / "a", {}), whole(scratch / "b", {});
  CHECK_FALSE(run.checkpoints.is_overdue());
  run.checkpoints.save_first_by(steady_seconds() + 3600);
  CHECK_FALSE(run.checkpoints.is_overdue());
  run.checkpoints.save_first_by(steady_seconds());
  CHECK(run.checkpoints.is_overdue());
  run.training.step();
  run.checkpoints.save(run.at(1));
  run.training.step();  // while it would still be written
  run.checkpoints.report();
  CHECK_FALSE(run.checkpoints.is_overdue());
  CHECK(run.checkpoints.longest_seconds() > 0);
  whole.training.step();
  whole.checkpoints.save_now(whole.at(1));
  for (const char* file : {kModelFile, kOptimizerFile})
    CHECK(contents(checkpoint(scratch / "a", 1) / file) == contents(checkpoint(scratch / "b", 1) / file));
}

TEST_CASE("failed saves are counted and tried again, and three in a row end the run") {
  const ScratchDirectory scratch;
  Saving run(scratch / "c");
  run.checkpoints.save_now(run.at(1));
  fs::rename(scratch / "c", scratch / "aside");
  std::ofstream(scratch / "c") << "in the way";
  run.checkpoints.save(run.at(2));
  while (run.checkpoints.failures() == 0) run.checkpoints.report();
  fs::remove(scratch / "c");
  fs::rename(scratch / "aside", scratch / "c");
  run.checkpoints.save_now(run.at(3));
  CHECK(run.checkpoints.failures() == 1);
  CHECK(steps_in(scratch / "c") == std::vector<int64_t>{3, 1});
  fs::rename(scratch / "c", scratch / "aside");
  std::ofstream(scratch / "c") << "in the way";
  const std::string text = error_text(ExitCode::io, [&] { run.checkpoints.save_now(run.at(5)); });
  CHECK(text.starts_with("3 saves in a row failed"));
  CHECK(run.checkpoints.failures() == 4);
}

TEST_CASE("a weight that is not finite ends the run before it is saved, and what was saved remains") {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const int64_t every : {0, 1}) {  // in the foreground, in the background
      const ScratchDirectory scratch;
      Saving run(scratch / "c", {.every_steps = every});
      run.checkpoints.save_now(run.at(1));
      Executable& executable = run.training.executable;
      const auto& tensors = executable.plan().tensors;
      const auto first = std::ranges::find(tensors, Role::parameter, &Tensor::role);
      const auto id = static_cast<TensorId>(first - tensors.begin());
      const std::vector<float> good = executable.read(id);
      std::vector<float> bad = good;
      bad[3] = bad.back() = value;
      executable.write(id, bad);
      const std::string text = error_text(ExitCode::internal, [&] { run.checkpoints.save_now(run.at(2)); });
      CHECK(text.starts_with(
          fmt::format("weights are infinite or NaN: '{}' (2 of {} values); the checkpoint was "
                      "not written and earlier checkpoints remain",
                      first->name, good.size())));
      CHECK(steps_in(scratch / "c") == std::vector<int64_t>{1});
      executable.write(id, good);
      run.checkpoints.save_now(run.at(3));
      CHECK(steps_in(scratch / "c") == std::vector<int64_t>{3, 1});
    }
  }
}

TEST_CASE("the best checkpoint stays, also in a run that goes on and where a better one could not be saved") {
  const ScratchDirectory scratch;
  const CheckpointSettings settings{.every_steps = 1, .keep_latest = 2, .keep_best = "loss"};
  {
    Saving run(scratch / "c", settings);
    run.checkpoints.save_now(run.at(1, 0.5));
    for (int64_t step = 2; step <= 4; ++step) run.checkpoints.save_now(run.at(step, 0.6));
    CHECK(steps_in(scratch / "c") == std::vector<int64_t>{4, 3, 1});
  }
  const auto warn = [](const std::string& text) { FAIL(text); };
  Saving run(scratch / "c", settings);
  const ResumePoint from = *newest_checkpoint(scratch / "c", warn);
  run.state = from.state.loop;
  run.checkpoints.go_on_from(from);
  run.checkpoints.save_now(run.at(5, 0.7));
  CHECK(steps_in(scratch / "c") == std::vector<int64_t>{5, 4, 1});
  fs::rename(scratch / "c", scratch / "aside");
  std::ofstream(scratch / "c") << "in the way";
  run.checkpoints.save(run.at(6, 0.1));
  CHECK_THROWS(run.checkpoints.save_now(run.at(6)));
  fs::remove(scratch / "c");
  fs::rename(scratch / "aside", scratch / "c");
  run.checkpoints.save(run.at(7, 0.2));
  run.checkpoints.save_now(run.at(8, 0.3));
  CHECK(steps_in(scratch / "c") == std::vector<int64_t>{8, 7, 1});
}

TEST_CASE("the best weights follow the state that a run resumes from, and a failed copy is made later") {
  const ScratchDirectory scratch;
  const CheckpointSettings settings{.every_steps = 1, .keep_latest = 2, .keep_best = "loss"};
  const fs::path best = scratch / kBestFile;
  {
    Saving run(scratch / "checkpoints", settings);
    run.checkpoints.save_now(run.at(1, 0.5));
    const std::string first = contents(best);
    CHECK_THAT(first, Catch::Matchers::ContainsSubstring("step"));
    fs::rename(scratch / "checkpoints", scratch / "aside");
    std::ofstream(scratch / "checkpoints") << "in the way";
    run.training.step();
    CHECK_THROWS(run.checkpoints.save_now(run.at(2, 0.4)));
    CHECK(contents(best) == first);
    CHECK(run.checkpoints.best() == BestEvaluation{"loss", 0.5, 1});
    fs::remove(scratch / "checkpoints");
    fs::rename(scratch / "aside", scratch / "checkpoints");
    fs::remove(best);
    fs::create_directory(best);  // in the way of the file alone
    const int64_t failures = run.checkpoints.failures();
    run.checkpoints.save_now(run.at(3, 0.3));  // the checkpoint is there, and only its copy fails
    CHECK(run.checkpoints.failures() == failures);
    CHECK(run.checkpoints.best() == BestEvaluation{"loss", 0.3, 3});
    fs::remove(best);
    run.training.step();
    run.checkpoints.save_now(run.at(4, 0.9));  // tries it again
    CHECK(SafetensorsFile(best).metadata().at("best").ends_with(R"("step":3})"));
    CHECK(std::ranges::count(steps_in(scratch / "checkpoints"), 3) == 1);
  }
  for (const char* found : {"", "of another run", "gone"}) {
    std::ofstream(best) << found;
    if (found == std::string("gone")) fs::remove(best);
    Saving run(scratch / "checkpoints", settings);
    const ResumePoint from =
        *newest_checkpoint(scratch / "checkpoints", [](const std::string& text) { FAIL(text); });
    run.checkpoints.go_on_from(from);
    const SafetensorsFile file(best);
    CHECK(file.metadata().at("best").ends_with(fmt::format(R"("step":{}}})", from.state.best.step)));
  }
}

TEST_CASE("a state that is saved is not saved again until it is evaluated") {
  const ScratchDirectory scratch;
  { Saving(scratch / "c").checkpoints.save_now({.step = 3}); }
  const std::string before = contents(checkpoint(scratch / "c", 3) / kStateFile);
  Saving run(scratch / "c");
  run.checkpoints.go_on_from(*newest_checkpoint(scratch / "c", [](const std::string&) {}));
  run.training.step();
  run.checkpoints.save_now(run.at(3));
  CHECK(contents(checkpoint(scratch / "c", 3) / kStateFile) == before);
  run.checkpoints.save_now(run.at(3, 0.5));
  CHECK(contents(checkpoint(scratch / "c", 3) / kStateFile) != before);
  CHECK(verify_checkpoint(checkpoint(scratch / "c", 3)).step == 3);
  CHECK(std::distance(fs::directory_iterator(scratch / "c"), {}) == 1);
}

TEST_CASE(
    "after ranks differed, a resume prefers checkpoints before whose save they compared their weights") {
  const ScratchDirectory scratch;
  const fs::path root = scratch / "c";
  {
    Saving run(root, {.every_steps = 1, .keep_latest = 4});
    for (const auto& [step, verified] : {std::pair{10, 10}, std::pair{20, 20}, std::pair{30, 20}}) {
      run.state.verified = verified;
      run.checkpoints.save_now(run.at(step));
    }
  }
  std::vector<std::string> notes;
  const auto newest = [&] {
    notes.clear();
    return *newest_checkpoint(root, [&](const std::string& note) { notes.push_back(note); });
  };
  CHECK(newest().state.loop.step == 30);
  note_difference(root, "after step 33 the ranks' weights are not the same");
  CHECK(newest().state.loop.step == 20);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].starts_with("skipping checkpoint step-00000030: "));
  // A process that is killed before it saves changes nothing. The next save replaces the others.
  Saving run(root, {.every_steps = 1, .keep_latest = 4});
  run.checkpoints.go_on_from(newest());
  CHECK(newest().state.loop.step == 20);
  run.state.verified = 0;
  run.checkpoints.save_now(run.at(22));
  CHECK(steps_in(root) == std::vector<int64_t>{22, 20, 10});
  CHECK(newest().state.loop.step == 22);
  CHECK(notes.empty());
  // If none was verified, the newest is better than none.
  for (const int64_t step : {10, 20}) fs::remove_all(checkpoint(root, step));
  note_difference(root, "again");
  CHECK(newest().state.loop.step == 22);
  CHECK(notes.size() == 2);
}

TEST_CASE("checkpoints that were passed over do not count as kept ones") {
  const ScratchDirectory scratch;
  {
    Saving run(scratch / "c");
    run.checkpoints.save_now(run.at(10));
    run.checkpoints.save_now(run.at(20));
  }
  fs::resize_file(checkpoint(scratch / "c", 20) / kModelFile, 7);
  Saving run(scratch / "c");
  run.checkpoints.go_on_from(*newest_checkpoint(scratch / "c", [](const std::string&) {}));
  run.checkpoints.save_now(run.at(30));
  CHECK(steps_in(scratch / "c") == std::vector<int64_t>{30, 10});
  CHECK(fs::file_size(scratch / "c" / "damaged-step-00000020" / kModelFile) == 7);
}

TEST_CASE("only intact checkpoints count as kept ones, and only those of the run are removed") {
  const ScratchDirectory scratch;
  const fs::path root = scratch / "c";
  const CheckpointSettings settings{.every_steps = 1, .keep_latest = 3};
  {
    Saving run(root, settings);
    for (const int64_t step : {10, 20, 30}) run.checkpoints.save_now(run.at(step));
  }
  fs::resize_file(checkpoint(root, 10) / kModelFile, 7);
  {
    CheckpointWriter other(root, 5);
    const std::string text = to_json(RunState{.loop = {.step = 5}, .mathematics = "optimizer:\n  lr: 0.2\n"});
    other.add(kStateFile, [&](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); });
    other.commit();
  }
  fs::copy(checkpoint(root, 20), root / "step-00000025",
           fs::copy_options::recursive);  // does not match its name
  fs::create_directory(root / "step-00000015");
  std::ofstream(root / "step-00000015" / kManifestFile) << "trainer checkpoint 2\n";
  Saving run(root, settings);
  run.checkpoints.go_on_from(*newest_checkpoint(root, [](const std::string&) {}));
  CHECK(steps_in(root) == std::vector<int64_t>{30, 25, 20, 15, 5});  // 10 is damaged
  run.checkpoints.save_now(run.at(40));
  CHECK(steps_in(root) == std::vector<int64_t>{40, 30, 25, 20, 15, 5});
  run.checkpoints.save_now(run.at(50));
  CHECK(steps_in(root) == std::vector<int64_t>{50, 40, 30, 25, 15, 5});
  CHECK(fs::exists(root / "damaged-step-00000010"));
  const std::string text = error_text(ExitCode::io, [&] { run.checkpoints.save_now(run.at(25)); });
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("a checkpoint of this step is there"));
  CHECK(verify_checkpoint(checkpoint(root, 50)).step == 50);
}

TEST_CASE("a directory that another process has taken gets no checkpoint and loses none") {
  const ScratchDirectory scratch;
  const fs::path root = scratch / "c";
  {
    Saving run(root, {.every_steps = 1, .keep_latest = 9});
    for (const int64_t step : {5, 10, 20}) run.checkpoints.save_now(run.at(step));
    run.is_taken = true;
    CHECK_THAT(error_text(ExitCode::io, [&] { run.checkpoints.save_now(run.at(30)); }),
               Catch::Matchers::ContainsSubstring("taken over"));
  }
  const auto newest = [&] { return *newest_checkpoint(root, [](const std::string&) {}); };
  Saving run(root, {.every_steps = 1, .keep_latest = 2});
  run.is_taken = true;
  CHECK_THROWS(run.checkpoints.go_on_from(newest()));  // there is one too many
  fs::resize_file(checkpoint(root, 20) / kModelFile, 7);
  CHECK_THROWS(run.checkpoints.go_on_from(newest()));  // there is a damaged one
  CHECK(steps_in(root) == std::vector<int64_t>{20, 10, 5});
  CHECK(std::distance(fs::directory_iterator(root), {}) == 3);
  run.is_taken = false;
  run.checkpoints.go_on_from(newest());
  CHECK(steps_in(root) == std::vector<int64_t>{10, 5});
}

TEST_CASE("a rollback goes to no checkpoint of another run") {
  const ScratchDirectory scratch;
  const fs::path root = scratch / "c";
  Saving run(root);
  run.checkpoints.save_now(run.at(10));
  CHECK(run.checkpoints.restore()->step == 10);
  {
    CheckpointWriter other(root, 15);
    const std::string text =
        to_json(RunState{.loop = {.step = 15}, .mathematics = "optimizer:\n  lr: 0.2\n"});
    other.add(kStateFile, [&](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); });
    other.commit();
  }
  CHECK_THAT(error_text(ExitCode::recipe, [&] { run.checkpoints.restore(); }),
             Catch::Matchers::ContainsSubstring("(optimizer.lr is 0.2 there and 0.1 here)"));
  CHECK(steps_in(root) == std::vector<int64_t>{15, 10});
}

}  // namespace trainer
