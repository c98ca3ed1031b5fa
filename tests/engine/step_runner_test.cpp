// SPDX-License-Identifier: Apache-2.0
#include "core/train/step_runner.h"

#include <catch2/catch.hpp>

#include "core/data/synthetic.h"
#include "core/train/evaluation.h"
#include "cpu/backend.h"
#include "tests/engine/late_backend.h"
#include "tests/reference/networks.h"

namespace trainer {
namespace {

constexpr int64_t kRows = 4, kSamples = 24;
const Shape kSample = {1, 8, 8};

/// What the transforms of these tests make of a byte: the unit range.
const PixelScales kScales = {.scale = {1.0f / 255}, .offset = {0.0f}};

Network small_network() {
  return network_from(
      "{input: [1, 8, 8], layers: [{conv2d: {out_channels: 5, kernel_size: 3}}, batch_norm, relu, flatten, "
      "{linear: "
      "10}]}");
}

Program program_of(int64_t micro_batches, bool bytes) {
  const auto optimizer = optimizer_from("{name: sgd, momentum: 0.9, clip_norm: 1}");
  const std::vector<float> rates = {0.1f, 0.05f, 0.2f};
  Program program = forward_program(small_network(), kRows);
  std::vector<Pass> passes = {fuse_relu()};
  if (bytes) passes.push_back(read_pixels({{"train_step", kScales}, {"evaluate", kScales}}));
  for (const Pass& pass : {autodiff(), accumulate(micro_batches)}) passes.push_back(pass);
  run_passes(program, passes);
  optimizer->append_update(program, program.entry(updating_entry(program)), rates);
  run_passes(program, {dead_code()});
  return program;
}

struct Run {
  std::vector<double> losses, rates, norms;
  std::map<std::string, double> evaluation;
  std::vector<std::vector<float>> parameters;

  bool operator==(const Run&) const = default;
};

/// Ten steps with as many under way as the runner takes, and an evaluation after the fifth.
Run train(Backend& backend, int64_t micro_batches, bool replay = true, bool as_bytes = false) {
  const auto source = make_synthetic(7, Split::train, kSamples, kSample, 10);
  Diagnostics diagnostics;
  const TransformList none;
  const TransformChain chain(none, kSample, diagnostics);
  const Loading loading{
      .workers = 2, .prefetch = 2, .kept = InputFeed::kept(backend), .allocate = [&](int64_t bytes) {
        return backend.allocate_batch(bytes);
      }};
  const TrainingOrder order(kSamples, kRows * micro_batches, true);
  const BatchForm form{.content = as_bytes ? Content::bytes : Content::numbers};
  DataPipeline batches(
      BatchMaker(*source, chain, TrainingBatches{.seed = 1, .order = order, .micro_batch = kRows}, form),
      loading);
  DataPipeline validation(BatchMaker(*source, chain, EvaluationBatches{kRows}, form), loading);
  Executable executable(make_plan(program_of(micro_batches, as_bytes), backend), backend, replay);
  initialize(executable, 1);

  Run run;
  StepRunner runner(executable, batches, micro_batches);
  Evaluation evaluation(executable, validation, kSamples, false);
  auto take = [&] {
    const StepResult result = runner.take();
    CHECK(result.step == static_cast<int64_t>(run.losses.size()) + 1);
    REQUIRE(result.phases.has_value() == (result.step % 3 == 0));
    if (result.phases) CHECK((*result.phases)[Phase::backward] > 0);
    run.losses.push_back(result.loss);
    run.rates.push_back(runner.value("lr"));
    run.norms.push_back(runner.value("grad_norm"));
  };
  for (int64_t step = 1; step <= 10; ++step) {
    runner.put(step, step % 3 == 0);
    while (runner.ready() || runner.is_full() || (step == 5 && runner.under_way() > 0)) take();
    if (step == 5) run.evaluation = *evaluation.run([] { return false; });
  }
  while (runner.under_way() > 0) take();
  for (size_t i = 0; i < executable.plan().tensors.size(); ++i) {
    const Role role = executable.plan().tensors[i].role;
    if (is_persistent(role) && role != Role::constant)
      run.parameters.push_back(executable.read(static_cast<TensorId>(i)));
  }
  return run;
}

}  // namespace

TEST_CASE("a device that works later trains the same bits, with several steps under way") {
  const int64_t micro_batches = GENERATE(1, 3);
  const auto cpu = make_cpu_backend(1);
  const Run expected = train(*cpu, micro_batches);
  CHECK(expected.losses.size() == 10);
  CHECK(expected.losses.front() != expected.losses.back());
  CHECK(expected.rates.back() == Approx(0.2));
  CHECK(expected.evaluation.at("loss") > 0);
  for (const auto copies : {LateBackend::Copies::late, LateBackend::Copies::early}) {
    LateBackend late(*cpu, false, copies);
    CHECK(train(late, micro_batches) == expected);
  }
}

TEST_CASE("pictures that travel as bytes give the bits of those that travel as numbers") {
  const int64_t micro_batches = GENERATE(1, 3);
  const auto cpu = make_cpu_backend(1);
  const Run expected = train(*cpu, micro_batches);
  CHECK(train(*cpu, micro_batches, true, true) == expected);
  LateBackend late(*cpu);
  CHECK(train(late, micro_batches, true, true) == expected);
}

TEST_CASE("what a device has kept is replayed, once for each slot of inputs and for timing") {
  const auto cpu = make_cpu_backend(1);
  const Run expected = train(*cpu, 1);
  LateBackend late(*cpu, true);
  CHECK(train(late, 1) == expected);
  // Of the three slots steps 3, 6 and 9, which are timed, use one; an evaluation uses all.
  CHECK(late.recordings == 2 + 1 + 3);
  LateBackend walking(*cpu, true);
  CHECK(train(walking, 1, false) == expected);
  CHECK(walking.recordings == 0);
}

}  // namespace trainer
