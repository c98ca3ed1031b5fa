// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/passes/pass.h"

namespace trainer {

/// The conditions that select a program's optional passes.
struct PassSettings {
  bool trains = true;                          ///< false: only the forward part is built
  std::map<std::string, PixelNumbers> pixels;  ///< by entry; empty: images come as numbers
  std::map<std::string, SampleSet> samples;    ///< by entry; empty: they come from the host
  Recompute recompute;
  int64_t least_saved = int64_t{32} << 20;  ///< bytes; a GPU moves them while it starts four kernels
  const Planner* planner = nullptr;         ///< of the device, for features that only some devices have
};

/// The stage of a step's construction (core/step/step.cpp) in which a pass runs: once the named part exists.
enum class Place { forward, inputs, backward, micro_batch, accumulated, reduced, finished };

/// The table of passes, one line for each, in their order: its place, and a function in its own file. It
/// returns the pass, or nothing if the settings give it no work.
// clang-format off
#define TRAINER_PASSES(row) \
  row(forward, fold_batch_norm_pass) \
  row(forward, fuse_addend_pass) \
  row(forward, fuse_residual_pass) \
  row(forward, fuse_relu_pass) \
  row(forward, fuse_gate_pass) \
  row(inputs, read_pixels_pass) \
  row(inputs, read_samples_pass) \
  row(inputs, pad_channels_pass) \
  row(backward, fuse_gradient_sum_pass) \
  row(backward, fuse_classifier_pass) \
  row(micro_batch, gram_batch_norm_pass) \
  row(micro_batch, fuse_moments_pass) \
  row(micro_batch, fuse_gelu_pass) \
  row(micro_batch, recompute_pass) \
  row(accumulated, keep_low_weights_pass) \
  row(reduced, fuse_product_sum_pass) \
  row(finished, prepare_weights_pass) \
  row(finished, dead_code_pass) \
  row(finished, fuse_horizontally_pass)
// clang-format on

#define TRAINER_DECLARE_ROW(place, function) std::optional<Pass> function(const PassSettings& settings);
TRAINER_PASSES(TRAINER_DECLARE_ROW)
#undef TRAINER_DECLARE_ROW

/// Passes of a place that the settings select, in order.
std::vector<Pass> passes_at(Place place, const PassSettings& settings);

}  // namespace trainer
