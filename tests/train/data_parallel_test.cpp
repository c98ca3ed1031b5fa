// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include <algorithm>
#include <thread>

#include "core/data/images/rows.h"
#include "core/data/images/synthetic.h"
#include "core/engine/agreement.h"
#include "core/passes/table.h"
#include "core/train/evaluation.h"
#include "core/train/step_runner.h"
#include "cpu/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/thread_ranks.h"

namespace trainer {
namespace {

constexpr int64_t kPictures = 96, kHeldOut = 23, kTrainedSteps = 6;
const Shape kPicture = {3, 9, 9};

const char* const kPlain =
    "{input: [3, 9, 9], layers: [{conv2d: {out_channels: 7, kernel_size: 3}}, relu, {dropout: 0.3}, flatten, "
    "{linear: 10}]}";
const char* const kNormalised =
    "{input: [3, 9, 9], layers: [{conv2d: {out_channels: 8, kernel_size: 3, bias: false}}, batch_norm, relu, "
    "{conv2d: {out_channels: 5, kernel_size: 3, bias: false}}, batch_norm, relu, flatten, {linear: 10}]}";

/// Running statistics that stay as they are, and some that forget at once.
const char* const kStill =
    "{input: [3, 9, 9], layers: [{conv2d: {out_channels: 8, kernel_size: 3, bias: false}}, {batch_norm: "
    "{momentum: "
    "0}}, relu, {conv2d: {out_channels: 5, kernel_size: 3, bias: false}}, {batch_norm: {momentum: 1}}, "
    "flatten, "
    "{linear: 10}]}";

/// How a step's samples are divided.
struct Division {
  int64_t ranks = 1, micro_batches = 1, rows = 4;  ///< micro-batches of each rank
  int64_t bucket_bytes = 1 << 10;
  int64_t global_batch() const { return ranks * micro_batches * rows; }
};

struct Trained {
  std::map<std::string, std::vector<double>> tensors;  ///< all that persists and has one value on all ranks
  std::vector<double> losses, norms;
  std::map<std::string, double> evaluation;
  bool operator==(const Trained&) const = default;
};

Program shared_program(const char* network, const char* optimizer, const Division& division, bool guards) {
  Program program = forward_program(network_from(network), division.rows);
  const auto rule = optimizer_from(optimizer);
  const std::vector<float> rates(kTrainedSteps, 0.05f);
  const StepGuards counted{.loss = true, .counts = true};
  const PassOptions options{.micro_batches = division.micro_batches,
                            .ranks = division.ranks,
                            .bucket_bytes = division.bucket_bytes,
                            .watches_loss = guards,
                            .may_skip = guards,
                            .update = [&](Program& whole) {
                              rule->append_update(whole, whole.entry(updating_entry(whole)), rates,
                                                  guards ? counted : StepGuards{});
                            }};
  run_passes(program, passes_of(options));
  return program;
}

Trained train_on(const Backend& backend, Communicator& ranks, const Program& program,
                 const Division& division) {
  const auto source = make_synthetic(5, Split::train, kPictures, kPicture, 10),
             held_out = make_synthetic(5, Split::val, kHeldOut, kPicture, 10);
  Diagnostics diagnostics;
  const TransformList none;
  const TransformChain chain(none, kPicture, diagnostics);
  const Plan plan = make_plan(program, *backend.planner);
  const Loading loading{.workers = 1, .prefetch = 2, .kept = InputFeed::kept(plan)};
  const BatchInputs inputs = batch_inputs(program);
  const RankShare share{ranks.rank(), ranks.ranks()};
  const TrainingBatches training{.seed = 1,
                                 .order = TrainingOrder(kPictures, division.global_batch(), true),
                                 .micro_batch = division.rows,
                                 .share = share};
  DataPipeline batches(BatchMaker(make_image_rows(*source, chain, inputs, &training), inputs, training),
                       loading);
  const EvaluationBatches pass{.samples = kHeldOut, .batch = division.rows, .share = share};
  DataPipeline validation(BatchMaker(make_image_rows(*held_out, chain, inputs), inputs, pass), loading);
  Executable executable(plan, *backend.device, true);
  initialize(executable, 1);
  Agreement agreement(ranks);
  StepRunner runner(executable, batches, division.micro_batches, agreement);
  Trained trained;
  for (int64_t step = 1; step <= kTrainedSteps; ++step) {
    runner.enqueue(step, false);
    while (runner.in_flight() > 0) {
      const StepReport report = runner.take().report;
      trained.losses.push_back(report.loss);
      if (report.grad_norm) trained.norms.push_back(*report.grad_norm);
    }
  }
  trained.evaluation = *Evaluation(executable, validation, kHeldOut, {loss_metric()}, false).run(agreement);
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor& tensor = plan.tensors[i];
    if (!is_persistent(tensor.role) || tensor.role == Role::constant || tensor.role == Role::gradient_sum)
      continue;
    trained.tensors[tensor.name] = executable.read<double>(static_cast<TensorId>(i));
  }
  return trained;
}

/// What each rank has come to.
std::vector<Trained> train_all(const char* network, const Division& division, const char* optimizer,
                               bool guards) {
  const Program program = shared_program(network, optimizer, division, guards);
  std::vector<Trained> all(static_cast<size_t>(division.ranks));
  if (division.ranks == 1) {
    OneRank alone;
    all[0] = train_on(make_cpu_backend(1), alone, program, division);
    return all;
  }
  test::RankTable table(all.size());
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    threads.emplace_back([&, rank] {
      test::ThreadRank seat(table, rank);
      all[rank] = train_on(make_cpu_backend(1, nullptr, false, &seat), seat, program, division);
    });
  }
  threads.clear();
  return all;
}

/// Largest difference between two runs' tensors, relative to the tensor's largest value.
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
    INFO(name);
    CHECK(difference / largest < 1e-5);
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

constexpr const char* kMomentum = "{name: sgd, momentum: 0.9, clip_norm: 1}";

}  // namespace

TEST_CASE("ranks come to what one rank comes to with as many micro-batches") {
  const char* network = GENERATE(kPlain, kNormalised, kStill);
  const bool guards = GENERATE(false, true);
  const auto [ranks, micro_batches] = GENERATE(std::pair{2, 1}, std::pair{2, 2}, std::pair{3, 2});
  INFO(network << " guards " << guards << " ranks " << ranks << " x " << micro_batches);
  const Division shared{.ranks = ranks, .micro_batches = micro_batches},
      alone{.micro_batches = ranks * micro_batches};
  const Trained expected = train_all(network, alone, kMomentum, guards)[0];
  const std::vector<Trained> found = train_all(network, shared, kMomentum, guards);
  for (const Trained& one : found) CHECK(one == found[0]);
  CHECK(distance(expected, found[0]) < 1e-5);
  REQUIRE(found[0].losses.size() == kTrainedSteps);
  for (size_t i = 0; i < kTrainedSteps; ++i) {
    CHECK(found[0].losses[i] == Approx(expected.losses[i]).epsilon(1e-5));
    CHECK(found[0].norms[i] == Approx(expected.norms[i]).epsilon(1e-5));
  }
  CHECK(found[0].evaluation.at("loss") == Approx(expected.evaluation.at("loss")).epsilon(1e-5));
}

TEST_CASE("two ranks come to the parameter bits of one with two micro-batches") {
  const char* network = GENERATE(kPlain, kNormalised);
  const Trained expected = train_all(network, {.micro_batches = 2}, "{name: sgd, momentum: 0.9}", false)[0];
  const Trained found = train_all(network, {.ranks = 2}, "{name: sgd, momentum: 0.9}", false)[1];
  for (const auto& [name, values] : expected.tensors) {
    INFO(name);
    if (name.find("running") == std::string::npos) CHECK(found.tensors.at(name) == values);
  }
  CHECK(found.tensors.size() == expected.tensors.size());
}

TEST_CASE("the size of buckets changes no bit, nor how the ranks' pictures lie") {
  const Division one{.ranks = 3, .rows = 2, .bucket_bytes = 1},
      all{.ranks = 3, .rows = 2, .bucket_bytes = 1 << 30};
  CHECK(train_all(kNormalised, one, kMomentum, false)[0] == train_all(kNormalised, all, kMomentum, false)[2]);
}

}  // namespace trainer
