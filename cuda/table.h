// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/handler.h"

/// The tables of operations: one line for each file, a function in it that adds its handlers. These run
/// kernels of our own, on a GPU or in the emulation.
// clang-format off
#define TRAINER_CUDA_OWN(row) \
  row(add_all_reduce) \
  row(add_append_to_cache) \
  row(add_apply_mask) \
  row(add_attention) \
  row(add_batch_norm) \
  row(add_channels) \
  row(add_confusion_cells) \
  row(add_cross_entropy_sums) \
  row(add_dropout) \
  row(add_element_loss) \
  row(add_elementwise) \
  row(add_embedding) \
  row(add_fake_quantize) \
  row(add_for_each) \
  row(add_gated) \
  row(add_gram_batch_norm) \
  row(add_group_norm) \
  row(add_guards) \
  row(add_layer_norm) \
  row(add_loss) \
  row(add_loss_scale) \
  row(add_movement) \
  row(add_noise) \
  row(add_optimizer) \
  row(add_pixels) \
  row(add_pooling) \
  row(add_positions) \
  row(add_psnr) \
  row(add_rearrange) \
  row(add_resample) \
  row(add_scale_features) \
  row(add_soft_cross_entropy) \
  row(add_softmax)

/// These need cuDNN or cuBLASLt, and may replace handlers above.
#define TRAINER_CUDA_LIBRARIES(row) \
  row(add_convolution) \
  row(add_fused_attention) \
  row(add_linear) \
  row(add_matmul)
// clang-format on

namespace trainer::cuda {

#define TRAINER_DECLARE_ROW(function) void function(Handlers& handlers);
TRAINER_CUDA_OWN(TRAINER_DECLARE_ROW)
TRAINER_CUDA_LIBRARIES(TRAINER_DECLARE_ROW)
#undef TRAINER_DECLARE_ROW

}  // namespace trainer::cuda
