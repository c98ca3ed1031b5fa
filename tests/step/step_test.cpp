// SPDX-License-Identifier: Apache-2.0
#include "core/step/step.h"

#include <algorithm>
#include <set>

#include "core/step/stages.h"
#include "tests/catch.h"
#include "tests/passes/draft.h"
#include "tests/reference/networks.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

std::vector<std::string> names_of(const std::vector<Pass>& passes) {
  std::vector<std::string> names;
  for (const Pass& pass : passes) names.push_back(pass.name);
  return names;
}

/// One with every stage and every pass.
StepSpec everything(const Optimizer& optimizer, const Planner& planner) {
  static const std::unique_ptr<Loss> counting = loss_from("{name: cross_entropy, ignore_index: 0}");
  StepSpec spec{
      .forward = {.loss = counting.get(), .teacher = std::make_shared<const Program>()},
      .passes = {.planner = &planner},
      .precision = Precision::amp_fp16,
      .micro_batches = 2,
      .mesh = {.replicas = 1, .shards = 2},
      .sync_batch_norm = true,
      .shard_optimizer = true,
      .update = {.optimizer = &optimizer, .learning_rates = {0.1f}, .guards = {.loss = true, .counts = true}},
      .prune = PruneSpec{},
      .fake_quantize = FakeQuantizeSpec{},
      .ema_decay = 0.9};
  spec.passes.pixels[entry_name::kTrainStep] = {.scale = {1}, .offset = {0}};
  spec.passes.samples[entry_name::kTrainStep].name = "train";
  return spec;
}

}  // namespace

TEST_CASE("a training step is forward, backward, accumulate, reduce, guard, update, average") {
  const auto optimizer = optimizer_from("{name: sgd}");
  const RefusingPlanner planner;
  CHECK(names_of(training_step(everything(*optimizer, planner))) ==
        std::vector<std::string>{"forward",
                                 "teacher",
                                 "loss",
                                 "choose_pruned",
                                 "fake_quantize",
                                 "fold_batch_norm",
                                 "fuse_addend",
                                 "fuse_residual",
                                 "fuse_relu",
                                 "fuse_gate",
                                 "mixed_precision",
                                 "read_pixels",
                                 "read_samples",
                                 "pad_channels",
                                 "shard_parameters",
                                 "autodiff",
                                 "fuse_gradient_sum",
                                 "fuse_classifier",
                                 "sync_batch_norm",
                                 "gram_batch_norm",
                                 "fuse_moments",
                                 "fuse_gelu",
                                 "recompute",
                                 "gather_again",
                                 "accumulate",
                                 "keep_low_weights",
                                 "sum_losses",
                                 "data_parallel",
                                 "fuse_product_sum",
                                 "learning_rate",
                                 "mean_loss",
                                 "prune_gradients",
                                 "guard",
                                 "clip_gradients",
                                 "adapt_loss_scale",
                                 "update",
                                 "shard_optimizer",
                                 "guard_statistics",
                                 "prune",
                                 "average_weights",
                                 "dead_code",
                                 "fuse_horizontally",
                                 "overlap_collectives"});
  const auto loss = loss_from("{name: cross_entropy}");
  CHECK(names_of(training_step({.forward = {.loss = loss.get()},
                                .update = {.optimizer = optimizer.get(), .learning_rates = {0.1f}}})) ==
        std::vector<std::string>{"forward", "loss", "fold_batch_norm", "fuse_residual", "fuse_relu",
                                 "fuse_gate", "autodiff", "fuse_gradient_sum", "fuse_classifier", "recompute",
                                 "accumulate", "keep_low_weights", "learning_rate", "mean_loss", "guard",
                                 "clip_gradients", "update", "dead_code"});
  CHECK(names_of(inference({.forward = {.use = {.purpose = Purpose::evaluate, .averages = true}},
                            .passes = {.trains = false}})) ==
        std::vector<std::string>{"forward", "loss", "fold_batch_norm", "fuse_residual", "fuse_relu",
                                 "fuse_gate", "fuse_classifier", "given_averages", "prepare_weights",
                                 "dead_code"});
}

TEST_CASE("what a pass has to come after exists, and is looked at before any pass runs") {
  const auto optimizer = optimizer_from("{name: sgd}");
  const RefusingPlanner planner;
  const std::vector<Pass> all = training_step(everything(*optimizer, planner));
  std::set<std::string> known = {"given_averages"};
  for (const Pass& pass : all) known.insert(pass.name);
  for (const Pass& pass : all) {
    INFO(pass.name);
    for (const std::string& earlier : pass.after) CHECK(known.contains(earlier));
    if (!pass.optional && pass.name != "forward") CHECK_FALSE(pass.after.empty());  // the first
  }
  Program program;
  CHECK_THROWS_WITH(run_passes(program, {autodiff(), mixed_precision(DType::bf16)}),
                    "the pass autodiff has to come after mixed_precision");
  CHECK_THROWS_WITH(run_passes(program, {average_weights(0.9), guard_statistics()}),
                    "the pass average_weights has to come after guard_statistics");
}

TEST_CASE("only optional passes can be left out") {
  const auto optimizer = optimizer_from("{name: sgd}");
  const auto loss = loss_from("{name: cross_entropy}");
  StepSpec spec{.forward = {.loss = loss.get()},
                .update = {.optimizer = optimizer.get(), .learning_rates = {0.1f}},
                .left_out = {"fuse_relu"}};
  const std::vector<std::string> names = names_of(training_step(spec));
  CHECK(std::ranges::find(names, "fuse_relu") == names.end());
  spec.left_out = {"autodiff"};
  CHECK(test::error_text(ExitCode::usage, [&] {
          training_step(spec);
        }).starts_with("unknown optional pass 'autodiff'; optional passes: "));
}

}  // namespace trainer
