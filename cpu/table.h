// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/handler.h"

/// The table of operations: one line for each file, a function in it that adds its handlers.
// clang-format off
#define TRAINER_CPU_HANDLERS(row) \
  row(add_all_reduce) \
  row(add_append_to_cache) \
  row(add_apply_mask) \
  row(add_attention) \
  row(add_batch_norm) \
  row(add_batch_norm_backward) \
  row(add_batch_norm_inference) \
  row(add_batch_norm_moments) \
  row(add_batch_norm_sums) \
  row(add_channels) \
  row(add_confusion_cells) \
  row(add_convolution) \
  row(add_cross_entropy_sums) \
  row(add_element_loss) \
  row(add_elementwise) \
  row(add_embedding) \
  row(add_fake_quantize) \
  row(add_gated) \
  row(add_group_norm) \
  row(add_guards) \
  row(add_inner_product) \
  row(add_layer_norm) \
  row(add_layer_norm_backward) \
  row(add_loss) \
  row(add_loss_scale) \
  row(add_matmul) \
  row(add_movement) \
  row(add_noise) \
  row(add_optimizer) \
  row(add_pixels) \
  row(add_pooling) \
  row(add_positions) \
  row(add_psnr) \
  row(add_quantize) \
  row(add_quantized_product) \
  row(add_rearrange) \
  row(add_resample) \
  row(add_scale_features) \
  row(add_soft_cross_entropy) \
  row(add_softmax) \
  row(add_stochastic_depth)
// clang-format on

namespace trainer::cpu {

#define TRAINER_DECLARE_ROW(function) void function(Handlers& handlers);
TRAINER_CPU_HANDLERS(TRAINER_DECLARE_ROW)
#undef TRAINER_DECLARE_ROW

}  // namespace trainer::cpu
