// SPDX-License-Identifier: Apache-2.0
#include "core/train/step_runner.h"

#include "tests/catch.h"

#include <algorithm>

#include "core/data/images/rows.h"
#include "core/data/images/synthetic.h"
#include "core/data/images/transforms/table.h"
#include "core/graph/ops/confusion_cells.h"
#include "core/train/device_samples.h"
#include "core/train/evaluation.h"
#include "cpu/backend.h"
#include "tests/engine/late_backend.h"
#include "tests/reference/networks.h"

namespace trainer {
namespace {

/// The form of a batch's images: numbers, bytes, or the numbers of samples that are on the device.
enum class Content { numbers, bytes, samples };

constexpr int64_t kRows = 4, kSamples = 24, kValidation = 18;
const Shape kSample = {1, 8, 8};

/// The transforms of these tests map bytes to the unit range.
const PixelNumbers kScales = {.scale = {1.0f / 255}, .offset = {0.0f}};

Network small_network() {
  return network_from(
      "{input: [1, 8, 8], layers: [{conv2d: {out_channels: 5, kernel_size: 3}}, batch_norm, relu, flatten, "
      "{linear: "
      "10}]}");
}

/// A random window, perhaps mirrored.
TransformList augmentation() {
  TransformList list;
  list.push_back(make_random_crop());
  list.push_back(make_horizontal_flip());
  return list;
}

/// The same for a device, of a run with seed 1.
SampleSteps device_augmentation() {
  SampleSteps steps{.key = random_key(1, "augment")};
  for (const auto& transform : augmentation()) steps.steps[steps.count++] = *transform->device_step(kSample);
  return steps;
}

Program program_of(int64_t micro_batches, Content content) {
  const auto optimizer = optimizer_from("{name: sgd, momentum: 0.9, clip_norm: 1}");
  const std::vector<float> rates = {0.1f, 0.05f, 0.2f};
  Program program = forward_program(small_network(), kRows);
  Entry& evaluate = program.entry(entry_name::kEvaluate);
  const std::vector<TensorId> compared{evaluate.output(output_name::kLogits),
                                       program.find(input_name::kLabels), program.find(input_name::kWeights)};
  evaluate.outputs.push_back(
      {output_name::kConfusionCells, Builder(program, evaluate).emit<ConfusionCells>(compared)});
  std::vector<Pass> passes = {fuse_relu()};
  if (content != Content::numbers)
    passes.push_back(read_pixels({{entry_name::kTrainStep, kScales}, {entry_name::kEvaluate, kScales}}));
  if (content == Content::samples) {
    const SampleSet training{
        .name = "train", .size = kSamples, .shape = kSample, .steps = device_augmentation()},
        held_out{.name = "val", .size = kValidation, .shape = kSample, .steps = {}};
    passes.push_back(read_samples({{entry_name::kTrainStep, training}, {entry_name::kEvaluate, held_out}}));
  }
  for (const Pass& pass : {autodiff(), accumulate(micro_batches)}) passes.push_back(pass);
  run_passes(program, passes);
  append_update(*optimizer, program, program.entry(updating_entry(program)), rates);
  run_passes(program, {dead_code()});
  return program;
}

struct RunnerResult {
  std::vector<double> losses, rates, norms;
  std::map<std::string, double> evaluation;
  std::vector<int64_t> confusion;  ///< counts of the matrix
  std::vector<std::vector<double>> parameters;

  bool operator==(const RunnerResult&) const = default;
};

/// Results of a step besides its numbers.
struct Timing {
  int64_t every = 3;     ///< steps, one of which is timed
  double data_wait = 0;  ///< sums over all steps, in seconds
  double host = 0;
  std::vector<std::string> warnings = {};
};

/// Ten steps, each taken `lag` later or as late as the runner takes them, and an evaluation after the fifth;
/// with `searches` an earlier step is repeated while others are in flight.
RunnerResult train_three_steps(const Backend& backend, int64_t micro_batches, bool replay = true,
                               bool searches = false, Content content = Content::numbers,
                               int64_t lag = INT64_MAX, Timing* timing = nullptr) {
  const auto source = make_synthetic(7, Split::train, kSamples, kSample, 10),
             held_out = make_synthetic(7, Split::val, kValidation, kSample, 10);
  Diagnostics diagnostics;
  const TransformList list = augmentation(), none;
  const TransformChain chain(list, kSample, diagnostics), plain(none, kSample, diagnostics);
  const Program program = program_of(micro_batches, content);
  const Plan plan = make_plan(program, *backend.planner);
  const Loading loading{
      .workers = 2, .prefetch = 2, .kept = InputFeed::kept(plan), .allocate = [&](int64_t bytes) {
        return backend.device->allocate_batch(bytes);
      }};
  const TrainingOrder order(kSamples, kRows * micro_batches, true);
  const BatchInputs inputs = batch_inputs(program);
  const TrainingBatches training{.seed = 1, .order = order, .micro_batch = kRows};
  DataPipeline batches(BatchMaker(make_image_rows(*source, chain, inputs, &training), inputs, training),
                       loading);
  DataPipeline validation(
      BatchMaker(make_image_rows(*held_out, plain, inputs), inputs, EvaluationBatches{kValidation, kRows}),
      loading);
  Executable executable(plan, *backend.device, replay);
  if (timing != nullptr) {
    executable.on_warning([timing](const std::string& text) { timing->warnings.push_back(text); });
  }
  initialize(executable, 1);
  std::optional<DeviceSamples> samples;
  if (content == Content::samples) samples.emplace(executable, *source, held_out.get());

  RunnerResult run;
  Timing usual, &times = timing != nullptr ? *timing : usual;
  SingleProcess alone;
  Agreement agreement(alone);
  StepRunner runner(executable, batches, micro_batches, agreement);
  Evaluation evaluation(executable, validation, kValidation,
                        {loss_metric(), *find_metric(confusion_metrics(), "macro_f1")}, false, {}, 10);
  auto take = [&] {
    const StepResult result = runner.take();
    CHECK(result.report.step == static_cast<int64_t>(run.losses.size()) + 1);
    REQUIRE(result.phases.has_value() == (result.report.step % times.every == 0));
    if (result.phases) CHECK((*result.phases)[Phase::backward] > 0);
    times.data_wait += result.data_wait;
    times.host += result.host;
    run.losses.push_back(result.report.loss);
    run.rates.push_back(result.report.lr);
    run.norms.push_back(result.report.grad_norm.value());
  };
  for (int64_t step = 1; step <= 10; ++step) {
    runner.enqueue(step, step % times.every == 0);
    if (searches && (step == 4 || step == 7)) {
      CHECK(runner.find_non_finite(step - 2) == "it did not occur again when the step was repeated");
    }
    while (runner.in_flight() > (step == 5 ? 0 : std::min(lag, runner.lag()))) take();
    if (step != 5) continue;
    run.evaluation = *evaluation.run(agreement);
    ConfusionMatrix matrix = *evaluation.matrices().at("");
    CHECK(matrix.total() == kValidation);
    run.confusion.assign(matrix.counts().begin(), matrix.counts().end());
  }
  while (runner.in_flight() > 0) take();
  for (size_t i = 0; i < executable.plan().tensors.size(); ++i) {
    const Role role = executable.plan().tensors[i].role;
    if (is_persistent(role) && role != Role::constant)
      run.parameters.push_back(executable.read<double>(static_cast<TensorId>(i)));
  }
  return run;
}

}  // namespace

TEST_CASE("an asynchronous device trains the same bits, with several steps in flight") {
  const int64_t micro_batches = GENERATE(1, 3);
  const auto cpu = make_cpu_backend(1);
  const RunnerResult expected = train_three_steps(cpu, micro_batches);
  CHECK(expected.losses.size() == 10);
  CHECK(expected.losses.front() != expected.losses.back());
  CHECK(expected.rates.back() == Approx(0.2));
  CHECK(expected.evaluation.at("loss") > 0);
  for (const auto copies : {Copies::late, Copies::early}) {
    for (const int64_t lag : {0, 1, 2, 3}) {
      LateBackend late(cpu, false, copies);
      CHECK(train_three_steps(late, micro_batches, true, false, Content::numbers, lag) == expected);
    }
  }
}

TEST_CASE(
    "images that travel as bytes, or lie on the device, give the bits of those that travel as numbers") {
  const int64_t micro_batches = GENERATE(1, 3);
  const auto cpu = make_cpu_backend(1);
  const RunnerResult expected = train_three_steps(cpu, micro_batches);
  CHECK(train_three_steps(cpu, micro_batches, true, false, Content::bytes) == expected);
  for (const Content content : {Content::bytes, Content::samples}) {
    LateBackend late(cpu), capturing(cpu, true, Copies::early);
    CHECK(train_three_steps(late, micro_batches, true, true, content) == expected);
    CHECK(train_three_steps(capturing, micro_batches, true, true, content) == expected);
  }
}

TEST_CASE("every step in flight is timed by itself, and none is waited for") {
  const int64_t micro_batches = GENERATE(1, 3);
  const bool captures = GENERATE(false, true);
  const auto cpu = make_cpu_backend(1);
  const RunnerResult expected = train_three_steps(cpu, micro_batches);
  const auto waits = [&](int64_t every) {
    LateBackend late(cpu, captures, Copies::early);
    Timing timing{.every = every};
    CHECK(train_three_steps(late, micro_batches, true, false, Content::numbers, INT64_MAX, &timing) ==
          expected);
    return late.late().waits();
  };
  CHECK(waits(1) == waits(100));
}

TEST_CASE("a batch travels in one copy, and so do the numbers of each run of an entry") {
  const int64_t micro_batches = GENERATE(1, 3);
  const auto cpu = make_cpu_backend(1);
  const LateBackend late(cpu);
  const RunnerResult run = train_three_steps(late, micro_batches);
  const int64_t steps = std::ssize(run.losses), evaluated = (kValidation + kRows - 1) / kRows;
  CHECK(late.late().copies_to_device() == steps * micro_batches + evaluated);
  const int64_t runs = micro_batches == 1 ? steps : steps * (micro_batches + 1);  // the last one updates
  CHECK(late.late().copies_to_host() == runs + 2 * evaluated);  // two copies: the cells are not numbers
}

TEST_CASE("a wait for the device is no wait for data, nor the host's work") {
  const auto cpu = make_cpu_backend(1);
  LateBackend late(cpu);
  const int64_t before = late.late().waits();
  late.late().set_wait(std::chrono::milliseconds(100));
  Timing timing;
  train_three_steps(late, 3, true, false, Content::numbers, INT64_MAX, &timing);
  REQUIRE(late.late().waits() - before >= 20);  // two seconds, mostly waits of the steps themselves
  CHECK(timing.data_wait < 0.5);
  CHECK(timing.host < 0.5);
}

TEST_CASE("a step that is computed again leaves the bits of the run") {
  const int64_t micro_batches = GENERATE(1, 3);
  const auto cpu = make_cpu_backend(1);
  const RunnerResult expected = train_three_steps(cpu, micro_batches);
  CHECK(train_three_steps(cpu, micro_batches, true, true) == expected);
  for (const auto copies : {Copies::late, Copies::early}) {
    LateBackend late(cpu, false, copies), replaying(cpu, true, copies);
    CHECK(train_three_steps(late, micro_batches, true, true) == expected);
    CHECK(train_three_steps(replaying, micro_batches, true, true) == expected);
  }
}

TEST_CASE("what a device has kept is replayed, once for each slot of inputs and for timing") {
  const auto cpu = make_cpu_backend(1);
  const RunnerResult expected = train_three_steps(cpu, 1);
  LateBackend late(cpu, true);
  CHECK(train_three_steps(late, 1) == expected);
  // Of the three slots steps 3, 6 and 9 use one. They are timed with two stopwatches in turn, as each is in
  // flight when the next one is enqueued. An evaluation uses all slots.
  CHECK(late.captured_graphs() == 2 + 2 + 3);
  LateBackend uncaptured(cpu, true);
  CHECK(train_three_steps(uncaptured, 1, false) == expected);
  CHECK(uncaptured.captured_graphs() == 0);
}

TEST_CASE("where a device fails to capture a run it says so once, and the run goes on, bitwise identical") {
  const auto cpu = make_cpu_backend(1);
  const RunnerResult expected = train_three_steps(cpu, 1);
  for (const int64_t most : {0, 3}) {
    LateBackend late(cpu, true);
    late.late().set_most_graphs(most);
    Timing timing;
    CHECK(train_three_steps(late, 1, true, false, Content::numbers, INT64_MAX, &timing) == expected);
    REQUIRE(timing.warnings.size() == 1);
    CHECK_THAT(timing.warnings[0],
               Catch::Matchers::ContainsSubstring(
                   "no CUDA graph could be made of a step: the graph has too many nodes"));
    CHECK(late.captured_graphs() == most);
  }
  LateBackend unheard(cpu, true);
  unheard.late().set_most_graphs(0);
  CHECK_THROWS_WITH(train_three_steps(unheard, 1), "the graph has too many nodes");
}

}  // namespace trainer
