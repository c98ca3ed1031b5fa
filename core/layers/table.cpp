// SPDX-License-Identifier: Apache-2.0
#include "core/layers/table.h"

namespace trainer {

const Registry<Layer>& layers() {
  static const Registry<Layer> table = [] {
    Registry<Layer> rows = {
        conv2d_layer(),     linear_layer(),  max_pool2d_layer(), avg_pool2d_layer(), global_avg_pool2d_layer(),
        dropout_layer(),    flatten_layer(), reshape_layer(),    add_layer(),        mul_layer(),
        concat_layer(),
    };
    add_elementwise_layers(rows);
    return rows;
  }();
  return table;
}

}  // namespace trainer
