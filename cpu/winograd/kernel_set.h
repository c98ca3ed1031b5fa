// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/winograd/products.h"
#include "cpu/winograd/transforms.h"

namespace trainer::cpu::winograd {

/// All loops for one instruction set: kLanes, kStrip tiles and two vectors of sums in the products, kInputs
/// and up to three vectors in those of the weights' gradient.
template <class Isa>
struct KernelSet {
  static constexpr Kernels kAll = {.name = Isa::kName,
                                   .lanes = Isa::kLanes,
                                   .strip = Isa::kStrip,
                                   .transform_x = transform_x<Isa>,
                                   .transform_dy = transform_dy<Isa>,
                                   .transform_w = transform_w<Isa>,
                                   .multiply = multiply<Isa>,
                                   .transform_y = transform_y<Isa>,
                                   .accumulate = accumulate<Isa>,
                                   .transform_dw = transform_dw<Isa>};
};

}  // namespace trainer::cpu::winograd
