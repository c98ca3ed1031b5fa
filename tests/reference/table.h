// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/reference/loop.h"

/// The table of operations: one line for each file of loops, a function in it that adds them.
// clang-format off
#define TRAINER_REFERENCE_LOOPS(row) \
  row(add_append_to_cache) \
  row(add_apply_mask) \
  row(add_attention) \
  row(add_batch_norm) \
  row(add_channels) \
  row(add_confusion_cells) \
  row(add_convolution) \
  row(add_element_loss) \
  row(add_elementwise) \
  row(add_embedding) \
  row(add_fake_quantize) \
  row(add_gram_batch_norm) \
  row(add_group_norm) \
  row(add_guards) \
  row(add_layer_norm) \
  row(add_linear) \
  row(add_loss) \
  row(add_loss_scale) \
  row(add_matmul) \
  row(add_movement) \
  row(add_noise) \
  row(add_optimizer) \
  row(add_pooling) \
  row(add_positions) \
  row(add_psnr) \
  row(add_quantized) \
  row(add_rearrange) \
  row(add_resample) \
  row(add_soft_cross_entropy) \
  row(add_softmax)
// clang-format on

namespace trainer::reference {

#define TRAINER_DECLARE_ROW(function) void function(Loops& loops);
TRAINER_REFERENCE_LOOPS(TRAINER_DECLARE_ROW)
#undef TRAINER_DECLARE_ROW

}  // namespace trainer::reference
