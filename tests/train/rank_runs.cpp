// SPDX-License-Identifier: Apache-2.0
#include "tests/train/rank_runs.h"

#include "tests/catch.h"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "core/data/images/rows.h"
#include "core/data/images/synthetic.h"
#include "core/engine/agreement.h"
#include "core/engine/group_operations.h"
#include "core/engine/stored.h"
#include "core/engine/traffic.h"
#include "core/graph/ops/confusion_cells.h"
#include "core/run/weights.h"
#include "core/step/share_persistent.h"
#include "core/step/step.h"
#include "core/train/evaluation.h"
#include "core/train/step_runner.h"
#include "cpu/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/thread_group.h"
#include "tests/reference/thread_images.h"

namespace trainer::test {
namespace {

constexpr int64_t kImages = 96, kHeldOut = 23;
const Shape kImage = {3, 9, 9};

void add_confusion(Program& program) {
  Entry& entry = program.entry(entry_name::kEvaluate);
  Builder build(program, entry);
  const std::vector<TensorId> read{entry.output(output_name::kLogits), program.find(input_name::kLabels),
                                   program.find(input_name::kWeights)};
  entry.outputs.push_back({output_name::kConfusionCells, build.emit<ConfusionCells>(read)});
}

Program program_of(const char* text, const char* optimizer, const Division& division, bool guards,
                   int64_t rank) {
  const Network network = network_from(text);
  Program program = forward_program(network, division.rows);
  if (division.counts_confusion) add_confusion(program);
  const auto rule = optimizer_from(optimizer);
  const std::vector<float> rates(kTrainedSteps, 0.05f);
  const StepGuards counted{.loss = true, .counts = true, .skip_steps = division.skip_steps};
  const StepSpec spec{
      .forward = {.network = &network},
      .passes = {.recompute = division.recompute},
      .precision = division.precision,
      .shares = division.shares(),
      .mesh = division.mesh(),
      .rank = rank,
      .pipeline = {.schedule = {.kind = division.schedule,
                                .ranks = division.stages,
                                .chunks = division.chunks,
                                .micro_batches = division.micro_batches}},
      .sync_batch_norm = division.sync_batch_norm,
      .shard_optimizer = division.shard_optimizer,
      .bucket_bytes = division.bucket_bytes,
      .update = {.optimizer = rule.get(), .learning_rates = rates, .guards = guards ? counted : StepGuards{}},
      .ema_decay = division.ema_decay};
  run_passes(program, rest_of_step(spec));
  return program;
}

/// By stage of a pipeline.
std::vector<Program> shared_programs(const char* network, const char* optimizer, const Division& division,
                                     bool guards) {
  std::vector<Program> programs;
  for (int64_t stage = 0; stage < division.stages; ++stage)
    programs.push_back(
        program_of(network, optimizer, division, guards, stage * division.mesh().ranks_of_stage()));
  if (division.stages == 1) return programs;
  std::vector<Program> shared = programs;
  for (Program& program : shared) share_persistent(program, programs);
  return shared;
}

Trained train_on(const Backend& backend, ProcessGroup& group, const Program& program,
                 const Division& division, ThreadImages& images) {
  const auto source = make_synthetic(5, Split::train, kImages, kImage, 10),
             held_out = make_synthetic(5, Split::val, kHeldOut, kImage, 10);
  Diagnostics diagnostics;
  const TransformList none;
  const TransformChain chain(none, kImage, diagnostics);
  if (const auto reason = backend.planner->set_precision(division.precision))
    throw std::runtime_error(*reason);
  const Plan plan = make_plan(program, *backend.planner, group.rank());
  require_same_transfers(plan);
  const Loading loading{.workers = 1, .prefetch = 2, .kept = InputFeed::kept(plan)};
  const BatchInputs inputs = batch_inputs(program);
  const Mesh mesh = division.mesh();
  const RankShare share{mesh.coordinate(Axis::data, group.rank()), mesh.size(Axis::data)};
  const TrainingBatches training{.seed = division.seed,
                                 .order = TrainingOrder(kImages, division.global_batch(), true),
                                 .micro_batch = division.rows_of_run(),
                                 .share = share,
                                 .turn = division.sync_batch_norm ? division.rows : 0};
  DataPipeline batches(BatchMaker(make_image_rows(*source, chain, inputs, &training), inputs, training),
                       loading);
  const EvaluationBatches pass{.samples = kHeldOut, .batch = division.rows_of_run(), .share = share};
  DataPipeline validation(BatchMaker(make_image_rows(*held_out, chain, inputs), inputs, pass), loading);
  group.arrange(division.mesh());
  Executable executable(plan, *backend.device, true);
  initialize(executable, division.seed);
  if (division.ema_decay) start_averages(executable);
  Agreement agreement(group);
  StepRunner runner(executable, batches, division.runs(group.rank()), agreement);
  Trained trained;
  for (int64_t step = 1; step <= kTrainedSteps; ++step) {
    runner.enqueue(step, false);
    while (runner.in_flight() > 0) {
      const StepReport report = runner.take().report;
      trained.losses.push_back(report.loss);
      if (report.grad_norm) trained.norms.push_back(*report.grad_norm);
    }
  }
  std::vector<Metric> metrics = {loss_metric()};
  if (division.counts_confusion) metrics.push_back(*find_metric(confusion_metrics(), "macro_f1"));
  if (const auto* counts = dynamic_cast<const ThreadProcessGroup*>(&group)) {
    trained.exchanged = counts->traffic();
    for (const auto& [axis, bytes] : traffic_of_step(plan, division.runs(group.rank())))
      trained.planned[axis] = kTrainedSteps * bytes;
  }
  Evaluation evaluation(executable, validation, kHeldOut, metrics, false, {}, 10);
  trained.evaluation = *evaluation.run(agreement);
  if (division.counts_confusion) {
    ConfusionMatrix matrix = *evaluation.matrices().at("");
    trained.confusion.assign(matrix.counts().begin(), matrix.counts().end());
  }
  trained.persistent_bytes = static_cast<int64_t>(executable.persistent().size());
  StateImage image(executable, StateImage::Memory::shared, &images);
  images.of[static_cast<size_t>(group.rank())] = &image;
  barrier(group);
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor& tensor = plan.tensors[i];
    const auto id = static_cast<TensorId>(i);
    if (!is_persistent(tensor.role) || tensor.role == Role::constant || tensor.role == Role::gradient_sum)
      continue;
    if (is_divided(tensor) && outlives_step(tensor.role)) {
      if (group.rank() != 0) continue;
      std::vector<std::byte> bytes;
      image.read(id, [&](std::span<const std::byte> piece) {
        bytes.insert(bytes.end(), piece.begin(), piece.end());
      });
      trained.tensors[tensor.name] = from_stored<double>(bytes, plan.stored_type(id));
    } else if (executable.address(id) != nullptr) {
      trained.tensors[tensor.name] = executable.read<double>(id);
    }
  }
  barrier(group);  // rank 0 has read this image
  return trained;
}

}  // namespace

std::vector<Trained> train_all(const char* network, const Division& division, const char* optimizer,
                               bool guards) {
  const std::vector<Program> programs = shared_programs(network, optimizer, division, guards);
  std::vector<Trained> all(static_cast<size_t>(division.ranks));
  ThreadImages images(all.size());
  if (division.ranks == 1) {
    SingleProcess alone;
    all[0] = train_on(make_cpu_backend(1, nullptr, true), alone, programs[0], division, images);
    return all;
  }
  ThreadGroup table(all.size());
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    threads.emplace_back([&, rank] {
      ThreadProcessGroup seat(table, rank);
      const int64_t stage = division.mesh().coordinate(Axis::pipeline, static_cast<int64_t>(rank));
      all[rank] = train_on(make_cpu_backend(1, nullptr, true, &seat), seat,
                           programs[static_cast<size_t>(stage)], division, images);
    });
  }
  threads.clear();
  return all;
}

double distance(const Trained& a, const Trained& b) {
  double worst = 0;
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (const auto& [name, values] : a.tensors) {
    const std::vector<double>& others = b.tensors.at(name);
    double difference = 0, largest = 1e-3;
    for (size_t i = 0; i < values.size(); ++i) {
      difference = std::max(difference, std::abs(values[i] - others[i]));
      largest = std::max(largest, std::abs(values[i]));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

void check_close(const Trained& expected, const std::vector<Trained>& found, double most) {
  for (const Trained& one : found) {
    CHECK(one.losses == found[0].losses);
    CHECK(one.norms == found[0].norms);
    CHECK(one.evaluation == found[0].evaluation);
    REQUIRE(one.losses.size() == expected.losses.size());
    for (size_t i = 0; i < one.losses.size(); ++i)
      CHECK_THAT(one.losses[i], Catch::Matchers::WithinRel(expected.losses[i], most));
    REQUIRE(one.norms.size() == expected.norms.size());
    for (size_t i = 0; i < one.norms.size(); ++i)
      CHECK_THAT(one.norms[i], Catch::Matchers::WithinRel(expected.norms[i], 10 * most));
    for (const auto& [name, value] : expected.evaluation)
      CHECK_THAT(one.evaluation.at(name), Catch::Matchers::WithinRel(value, 10 * most));
    CHECK(one.confusion == expected.confusion);
    for (const auto& [axis, bytes] : one.planned) {
      INFO(to_string(axis));
      CHECK(one.exchanged.at(axis) == bytes);
    }
    CHECK(one.exchanged.size() == one.planned.size());
  }
  CHECK(distance(expected, found[0]) < 100 * most);
}

bool can_train_in_bf16() {
  return !make_cpu_backend(1, nullptr, true).planner->set_precision(Precision::amp_bf16);
}

}  // namespace trainer::test
