// SPDX-License-Identifier: Apache-2.0
#include <map>
#include "tests/catch.h"

#include "core/data/images/rows.h"
#include "core/data/images/synthetic.h"
#include "core/optim/optimizer.h"
#include "core/run/checkpoints.h"
#include "core/train/loop.h"
#include "cpu/backend.h"
#include "tests/engine/late_backend.h"
#include "tests/host/quiet_log.h"
#include "tests/reference/networks.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

constexpr int64_t kRollbackRows = 4, kRollbackSamples = 40, kRollbackSteps = 24;
const Shape kRollbackShape = {1, 6, 6};

/// A loss that jumps at once, before many steps are done: later steps are in flight by then.
StepGuards guards() {
  return {.loss = true,
          .counts = true,
          .spike = SpikeLimit{.loss_sigmas = 1, .norm_sigmas = 0, .window = 4},
          .skip_steps = skip_table({}, kRollbackSteps)};
}

Program guarded_program(int64_t micro_batches) {
  Program program =
      forward_program(network_from("{input: [1, 6, 6], layers: [{conv2d: {out_channels: 5, kernel_size: 3}}, "
                                   "batch_norm, relu, flatten, {linear: 4}]}"),
                      kRollbackRows);
  run_passes(program, {autodiff(), accumulate(micro_batches), sum_losses()});
  append_update(*optimizer_from("{name: sgd, momentum: 0.9}"), program,
                program.entry(updating_entry(program)), std::vector<float>(kRollbackSteps, 0.1f), guards());
  run_passes(program, {guard_statistics(), dead_code()});
  return program;
}

struct GuardedRun {
  std::map<std::string, std::vector<double>> state;  ///< persistent tensors
  std::string loop;                                  ///< its results, as text: a mean of no losses is NaN
  int64_t rollbacks = 0;
  std::string events;
};

GuardedRun train_guarded(const Backend& backend, int64_t micro_batches) {
  const test::ScratchDirectory scratch;
  test::QuietLog quiet;
  const auto source = make_synthetic(7, Split::train, kRollbackSamples, kRollbackShape, 4);
  Diagnostics diagnostics;
  const TransformList none;
  const TransformChain chain(none, kRollbackShape, diagnostics);
  const Program program = guarded_program(micro_batches);
  const Plan plan = make_plan(program, *backend.planner);
  const Loading loading{
      .workers = 2, .prefetch = 2, .kept = InputFeed::kept(plan), .allocate = [&](int64_t bytes) {
        return backend.device->allocate_batch(bytes);
      }};
  const TrainingOrder order(kRollbackSamples, kRollbackRows * micro_batches, true);
  const BatchInputs inputs = batch_inputs(program);
  const TrainingBatches batches{.seed = 1, .order = order, .micro_batch = kRollbackRows};
  DataPipeline data(BatchMaker(make_image_rows(*source, chain, inputs, &batches), inputs, batches), loading);
  Executable executable(plan, *backend.device, true);
  initialize(executable, 1);

  LoopSettings settings{
      .steps = kRollbackSteps,
      .samples_per_epoch = kRollbackSamples,
      .batch = {.global_batch = kRollbackRows * micro_batches, .micro_batch = kRollbackRows},
      .logging_interval = 5};
  settings.guard = {.spike = GuardSettings::Action::roll_back,
                    .sigmas = 1,
                    .max_skips = 0,
                    .max_rollbacks = kRollbackSteps};
  Checkpoints checkpoints(executable, scratch / "checkpoints", {.every_steps = 4}, settings, RunState{},
                          quiet.log, [] {});
  MetricsSinks metrics(scratch.path(), {}, {});
  UnreadableList unreadable(scratch / "bad.txt", quiet.log);
  SingleProcess group;
  TrainingLoop loop(
      executable, group, data, nullptr, settings,
      {.metrics = metrics, .progress = quiet.screen, .log = quiet.log, .unreadable = unreadable},
      &checkpoints);
  checkpoints.save_now(LoopState{});  // there is one to go back to from the first step on
  CHECK(loop.run(LoopState{}).what == LoopEnd::What::done);

  GuardedRun run{.state = {},
                 .loop = to_json(RunState{.loop = loop.state()}),
                 .rollbacks = loop.state().guard.rollbacks,
                 .events = ""};
  for (size_t i = 0; i < executable.plan().tensors.size(); ++i) {
    const Tensor& tensor = executable.plan().tensors[i];
    if (is_persistent(tensor.role))
      run.state[tensor.name] = executable.read<double>(static_cast<TensorId>(i));
  }
  read_records(scratch / "metrics.jsonl", [&](const MetricsRecord& record) {
    if (record.event) run.events += *record.event + " at " + std::to_string(record.step) + "; ";
  });
  return run;
}

}  // namespace

TEST_CASE("an asynchronous device rolls back to the same checkpoints and comes to the same bits") {
  const int64_t micro_batches = GENERATE(1, 2);
  const auto cpu = make_cpu_backend(1);
  const GuardedRun expected = train_guarded(cpu, micro_batches);
  INFO(expected.events);
  CHECK(expected.rollbacks > 1);
  for (const auto copies : {Copies::late, Copies::early}) {
    for (const bool records : {false, true}) {
      for (const size_t longest : {size_t{0}, size_t{9}, size_t{60}, SIZE_MAX}) {
        LateBackend late(cpu, records, copies);
        late.late().set_longest_queue(longest);
        const GuardedRun found = train_guarded(late, micro_batches);
        CHECK(found.events == expected.events);
        CHECK(found.state == expected.state);
        CHECK(found.loop == expected.loop);
      }
    }
  }
}

}  // namespace trainer
