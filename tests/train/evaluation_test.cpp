// SPDX-License-Identifier: Apache-2.0
#include "core/train/evaluation.h"

#include <cmath>
#include "tests/catch.h"

#include "core/data/images/rows.h"
#include "core/data/images/synthetic.h"
#include "core/graph/ops/confusion_cells.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/tasks/classification.h"
#include "cpu/backend.h"
#include "tests/reference/networks.h"

namespace trainer {
namespace {

constexpr int64_t kRows = 4, kSamples = 18;
const Shape kSample = {1, 8, 8};

double exp_of_mean(std::span<const double> sums, double samples) {
  return std::exp(sums[0] / samples);
}

double difference(std::span<const double> sums, double samples) {
  return (sums[0] - 2 * sums[1]) / samples;
}

/// A network with an evaluation that outputs its loss twice, once under another name.
Program program() {
  Program made = forward_program(network_from("{input: [1, 8, 8], layers: [flatten, {linear: 10}]}"), kRows);
  std::vector<NamedTensor>& outputs = made.entry("evaluate").outputs;
  outputs.push_back({"cost", outputs[0].tensor});
  return made;
}

}  // namespace

TEST_CASE("a metric is a function of sums over all batches, not a mean of what batches give") {
  const auto backend = make_cpu_backend(1);
  const auto source = make_synthetic(7, Split::val, kSamples, kSample, 10);
  Diagnostics diagnostics;
  const TransformList none;
  const TransformChain chain(none, kSample, diagnostics);
  const Program made = program();
  const BatchInputs inputs = batch_inputs(made);
  DataPipeline pipeline(
      BatchMaker(make_image_rows(*source, chain, inputs), inputs, EvaluationBatches{kSamples, kRows}),
      {.workers = 0});
  Executable executable(make_plan(made, *backend.planner), *backend.device, false);
  initialize(executable, 1);
  const std::vector<Metric> metrics = {
      loss_metric(),
      {.name = "perplexity", .direction = Direction::smaller, .sums = {"loss"}, .value = exp_of_mean},
      {.name = "both", .sums = {"cost", "loss"}, .value = difference},
      {.name = "share", .sums = {"loss"}, .count = "cost", .value = mean_of_samples}};
  Evaluation evaluation(executable, pipeline, kSamples, metrics, false);
  SingleProcess alone;
  Agreement agreement(alone);
  const auto found = *evaluation.run(agreement);
  CHECK(found.size() == 4);
  CHECK(found.at("share") == 1);
  const double loss = found.at("loss");
  CHECK(loss > 0.5);
  CHECK(found.at("perplexity") == std::exp(loss));
  CHECK(found.at("both") == Approx(-loss).epsilon(1e-14));
  CHECK(*evaluation.run(agreement) == found);
}

TEST_CASE("a confusion matrix counts every sample once, whatever the batches, in each run anew") {
  const auto backend = make_cpu_backend(2);
  const auto source = make_synthetic(7, Split::val, kSamples, kSample, 10);
  Diagnostics diagnostics;
  const TransformList none;
  const TransformChain chain(none, kSample, diagnostics);
  std::vector<ConfusionMatrix> found;
  for (const int64_t rows : {int64_t{1}, kRows, kSamples, int64_t{32}}) {
    Program made = forward_program(network_from("{input: [1, 8, 8], layers: [flatten, {linear: 10}]}"), rows);
    Entry& entry = made.entry("evaluate");
    Builder build(made, entry);
    const TensorId logits = entry.output("logits");
    const std::vector<TensorId> read{logits, made.find("labels"), made.find("weights")};
    entry.outputs.push_back({"top1", build.emit<TopK>(read, 1)});
    entry.outputs.push_back({"confusion_cells", build.emit<ConfusionCells>(read)});
    const BatchInputs inputs = batch_inputs(made);
    DataPipeline pipeline(
        BatchMaker(make_image_rows(*source, chain, inputs), inputs, EvaluationBatches{kSamples, rows}),
        {.workers = 0});
    Executable executable(make_plan(made, *backend.planner), *backend.device, false);
    initialize(executable, 1);
    std::vector<Metric> metrics = confusion_metrics();
    metrics.push_back(find_metric(top_metrics(), "top1")[0]);
    Evaluation evaluation(executable, pipeline, kSamples, metrics, false, {}, 10);
    SingleProcess alone;
    Agreement agreement(alone);
    const auto values = *evaluation.run(agreement);
    CHECK(*evaluation.run(agreement) == values);
    const ConfusionMatrix& matrix = *evaluation.matrices().at("");
    CHECK(matrix.total() == kSamples);
    CHECK(values.at("top1") == Approx(static_cast<double>(matrix.correct()) / kSamples));
    CHECK(values.at("macro_f1") == macro_mean(matrix, &ClassScores::f1));
    found.push_back(matrix);
    for (int64_t label = 0; label < 10; ++label) {
      for (int64_t c = 0; c < 10; ++c) CHECK(matrix.at(label, c) == found[0].at(label, c));
    }
  }
}

TEST_CASE("batches that lack an input of the program are refused") {
  const auto backend = make_cpu_backend(1);
  const auto source = make_synthetic(7, Split::val, kSamples, kSample, 10);
  Diagnostics diagnostics;
  const TransformList none;
  const TransformChain chain(none, kSample, diagnostics);
  const Program made = program();
  Executable executable(make_plan(made, *backend.planner), *backend.device, false);
  BatchInputs less = batch_inputs(made), other = less;
  std::erase_if(less, [](const BatchInput& input) { return input.name == "weights"; });
  other[*find_input(other, "images")].dtype = DType::u8;
  for (const BatchInputs& inputs : {less, other}) {
    DataPipeline pipeline(
        BatchMaker(make_image_rows(*source, chain, inputs), inputs, EvaluationBatches{kSamples, kRows}),
        {.workers = 0});
    CHECK_THROWS_AS(BatchFeed(executable, pipeline), std::logic_error);
  }
}

}  // namespace trainer
