// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/base/precision.h"
#include "core/passes/pass.h"

namespace trainer {

/// What decides which passes a program needs.
struct PassOptions {
  bool trains = true;      ///< false: only the forward part is wanted
  bool generates = false;  ///< it continues sequences token by token
  bool averages = false;   ///< where nothing is trained: averages of the weights are given
  Precision precision = Precision::fp32;
  std::map<std::string, PixelScales> pixels;  ///< by entry; empty: pictures come as numbers
  std::map<std::string, SampleSet> samples;   ///< by entry; empty: they come from the host
  Recompute recompute;
  int64_t micro_batches = 1;                 ///< that one rank computes in a step
  int64_t ranks = 1;                         ///< that train together
  bool sync_batch_norm = false;              ///< statistics are those of all ranks
  bool shard_optimizer = false;              ///< each rank holds a share of the moments
  int64_t bucket_bytes = int64_t{25} << 20;  ///< of gradients that travel together
  int64_t least_saved = int64_t{32} << 20;   ///< bytes; a GPU moves them while it starts four kernels
  bool watches_loss = false;                 ///< a guard decides by the loss of a step
  bool may_skip = false;                     ///< some steps change nothing
  std::function<void(Program&)> update;      ///< appends the optimiser
  std::optional<double> ema_decay;
  const Planner* planner = nullptr;  ///< of the device, for what only some devices do
};

/// The table of passes, one line for each, in their order: a function that its own file defines. It returns
/// the pass, or nothing where the options leave it without work.
// clang-format off
#define TRAINER_PASSES(row) \
  row(fuse_residual_pass) \
  row(fold_batch_norm_pass) \
  row(fuse_relu_pass) \
  row(mixed_precision_pass) \
  row(read_pixels_pass) \
  row(read_samples_pass) \
  row(pad_channels_pass) \
  row(autodiff_pass) \
  row(fuse_gradient_sum_pass) \
  row(fuse_classifier_pass) \
  row(sync_batch_norm_pass) \
  row(gram_batch_norm_pass) \
  row(fuse_moments_pass) \
  row(fuse_gelu_pass) \
  row(recompute_pass) \
  row(accumulate_pass) \
  row(keep_low_weights_pass) \
  row(sum_losses_pass) \
  row(data_parallel_pass) \
  row(fuse_product_sum_pass) \
  row(update_pass) \
  row(shard_optimizer_pass) \
  row(guard_statistics_pass) \
  row(average_weights_pass) \
  row(given_averages_pass) \
  row(dead_code_pass) \
  row(fuse_horizontally_pass)
// clang-format on

#define TRAINER_DECLARE_ROW(function) std::optional<Pass> function(const PassOptions& options);
TRAINER_PASSES(TRAINER_DECLARE_ROW)
#undef TRAINER_DECLARE_ROW

/// Those that the options ask for, in order.
std::vector<Pass> passes_of(const PassOptions& options);

}  // namespace trainer
