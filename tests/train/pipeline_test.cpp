// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/train/rank_runs.h"

namespace trainer::test {
namespace {

using Kind = PipelineSchedule::Kind;

constexpr const char* kChain =
    "{input: [3, 9, 9], layers: [{conv2d: {out_channels: 8, kernel_size: 3, bias: false}}, batch_norm, relu, "
    "{conv2d: {out_channels: 5, kernel_size: 3}}, relu, flatten, {linear: 7}, tanh, {linear: 9}, tanh, "
    "{linear: "
    "10}]}";

/// Tensors skip stages, and one weight is in the first stage and in the last.
constexpr const char* kSkips =
    "{input: [3, 9, 9], layers: [flatten, {linear: {name: first, out_features: 16, bias: false}}, "
    "{linear: {name: a, out_features: 16}}, tanh, {linear: {name: b, out_features: 16}}, "
    "{add: {name: sum, inputs: [first, b]}}, {linear: {name: c, out_features: 16}}, tanh, "
    "{add: {name: last, inputs: [c, first]}}, {linear: {name: again, out_features: 16, weight_of: a}}, "
    "{linear: 10}]}";

constexpr const char* kEndsWithoutWeights =
    "{input: [3, 9, 9], layers: [flatten, {linear: 8}, {linear: 8}, {linear: 8}, {linear: 10}, hard_tanh, "
    "hard_tanh]}";

constexpr const char* kByDepth = "{name: sgd, lr: 0.1, layer_lr_decay: 0.5}";
constexpr const char* kMuon = "{name: muon, lr: 0.02}";
constexpr const char* kPipelinedMomentum = "{name: sgd, momentum: 0.9, weight_decay: 0.01}";
constexpr const char* kPipelinedAdamW = "{name: adamw, lr: 0.01, clip_norm: 0.5}";

Trained alone(const char* network, Division division, const char* optimizer, bool guards) {
  division.rows *= division.mesh().size(Axis::data);
  division.ranks = division.shards = division.tensor = division.stages = division.chunks = 1;
  return train_all(network, division, optimizer, guards)[0];
}

struct Pipeline {
  int64_t stages;
  Kind kind;
  int64_t chunks, micro_batches;
};

Division division_of(const Pipeline& pipeline, int64_t data = 1) {
  return {.ranks = pipeline.stages * data,
          .micro_batches = pipeline.micro_batches,
          .rows = 3,
          .stages = pipeline.stages,
          .schedule = pipeline.kind,
          .chunks = pipeline.chunks};
}

Pipeline any_pipeline() {
  return GENERATE(Pipeline{2, Kind::one_forward_one_backward, 1, 2}, Pipeline{2, Kind::gpipe, 1, 3},
                  Pipeline{3, Kind::one_forward_one_backward, 1, 4}, Pipeline{2, Kind::interleaved, 2, 4},
                  Pipeline{4, Kind::one_forward_one_backward, 1, 5}, Pipeline{3, Kind::interleaved, 3, 3});
}

}  // namespace

TEST_CASE("stages on ranks of their own train as one process does") {
  const Pipeline pipeline = any_pipeline();
  INFO(pipeline.stages << " stages x " << pipeline.chunks << ", " << pipeline.micro_batches
                       << " micro-batches");
  Division division = division_of(pipeline);
  division.seed = GENERATE(uint64_t{1}, uint64_t{2});
  const char* const network = GENERATE(kChain, kSkips);
  SECTION("without clipping, losses and weights have the same bits") {
    const Trained expected = alone(network, division, kPipelinedMomentum, false);
    const std::vector<Trained> found = train_all(network, division, kPipelinedMomentum);
    check_close(expected, found, 1e-6);
    // More cuts would separate what one kernel computes otherwise, and a shared weight's gradients have
    // another order.
    const bool has_same_kernels = network == kChain && pipeline.stages * pipeline.chunks <= 4;
    if (has_same_kernels) CHECK((found[0].tensors == expected.tensors));
  }
  SECTION("with a limited norm, averages and steps that are skipped") {
    division.ema_decay = 0.7;
    division.skip_steps = {2, 2, 4, 5};
    check_close(alone(network, division, kPipelinedAdamW, true),
                train_all(network, division, kPipelinedAdamW, true), 1e-6);
  }
}

TEST_CASE("stages are divided further, by samples and by parts of the parameters") {
  const Pipeline pipeline =
      GENERATE(Pipeline{2, Kind::one_forward_one_backward, 1, 3}, Pipeline{2, Kind::interleaved, 2, 2});
  Division division = division_of(pipeline, 2);
  division.shards = GENERATE(1, 2);
  division.ema_decay = 0.7;
  const bool guards = GENERATE(false, true);
  // Statistics of a batch follow from the ranks' own samples.
  check_close(alone(kSkips, division, kPipelinedAdamW, guards),
              train_all(kSkips, division, kPipelinedAdamW, guards), 1e-5);
}

TEST_CASE("stages take a batch's statistics over all ranks, in the order of one process's samples") {
  Division division = division_of({2, Kind::one_forward_one_backward, 1, 3}, 2);
  division.sync_batch_norm = true;
  const bool guards = GENERATE(false, true);
  Division one = division;
  one.sync_batch_norm = false;
  check_close(alone(kChain, one, kPipelinedAdamW, guards),
              train_all(kChain, division, kPipelinedAdamW, guards), 1e-5);
}

TEST_CASE("what an optimizer decides by the whole network, a stage decides in the same way") {
  // Learning rates by depth; and matrices but tables and the last layer, which here no weight follows.
  const char* const optimizer = GENERATE(kByDepth, kMuon);
  const char* const network = GENERATE(kSkips, kEndsWithoutWeights);
  Division division = division_of({3, Kind::one_forward_one_backward, 1, 3});
  const bool guards = GENERATE(false, true);
  check_close(alone(network, division, optimizer, guards), train_all(network, division, optimizer, guards),
              1e-5);
}

TEST_CASE("a stage holds the weights and moments of its layers alone") {
  const Division division = division_of({4, Kind::one_forward_one_backward, 1, 4});
  const Trained whole = alone(kSkips, division, kPipelinedAdamW, true);
  const std::vector<Trained> stages = train_all(kSkips, division, kPipelinedAdamW, true);
  int64_t sum = 0;
  for (const Trained& stage : stages) {
    CHECK(stage.persistent_bytes < whole.persistent_bytes);
    sum += stage.persistent_bytes;
  }
  // Counters are everywhere, and the shared weight is in two stages.
  CHECK(sum < 2 * whole.persistent_bytes);
}

}  // namespace trainer::test
