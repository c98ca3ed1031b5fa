// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/layers/layer.h"

namespace trainer {

// One row for each layer, defined in the layer's own file and listed in table.cpp.
Registered<Layer> add_layer();
Registered<Layer> avg_pool2d_layer();
Registered<Layer> concat_layer();
Registered<Layer> conv2d_layer();
Registered<Layer> dropout_layer();
Registered<Layer> flatten_layer();
Registered<Layer> global_avg_pool2d_layer();
Registered<Layer> linear_layer();
Registered<Layer> max_pool2d_layer();
Registered<Layer> mul_layer();
Registered<Layer> reshape_layer();

/// A layer for each function of core/graph/ops/elementwise.h.
void add_elementwise_layers(Registry<Layer>& table);

}  // namespace trainer
