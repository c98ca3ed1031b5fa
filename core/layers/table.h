// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/layers/layer.h"

/// The table of layers: one line for each, a function in its own file that returns its row. (Element-wise
/// functions are not here: each makes a layer by being in elementwise::Function.)
// clang-format off
#define TRAINER_LAYERS(row) \
  row(conv2d_layer) \
  row(conv_transpose2d_layer) \
  row(batch_norm_layer) \
  row(linear_layer) \
  row(embedding_layer) \
  row(attention_layer) \
  row(positions_layer) \
  row(rotary_layer) \
  row(max_pool2d_layer) \
  row(avg_pool2d_layer) \
  row(global_avg_pool2d_layer) \
  row(adaptive_avg_pool2d_layer) \
  row(upsample_layer) \
  row(squeeze_excite_layer) \
  row(dropout_layer) \
  row(stochastic_depth_layer) \
  row(noise_layer) \
  row(flatten_layer) \
  row(reshape_layer) \
  row(transpose_layer) \
  row(to_tokens_layer) \
  row(to_images_layer) \
  row(slice_layer) \
  row(pad_layer) \
  row(scale_layer) \
  row(class_token_layer) \
  row(mean_tokens_layer) \
  row(add_layer) \
  row(mul_layer) \
  row(concat_layer) \
  row(layer_norm_layer) \
  row(rms_norm_layer) \
  row(group_norm_layer) \
  row(instance_norm_layer) \
  row(softmax_layer) \
  row(log_softmax_layer) \
  row(matmul_layer)
// clang-format on

namespace trainer {

#define TRAINER_DECLARE_ROW(function) Registered<Layer> function();
TRAINER_LAYERS(TRAINER_DECLARE_ROW)
#undef TRAINER_DECLARE_ROW

/// A layer for each function of core/graph/ops/elementwise.h.
void add_elementwise_layers(Registry<Layer>& table);

}  // namespace trainer
