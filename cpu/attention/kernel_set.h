// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/attention/panels.h"
#include "cpu/attention/products.h"

namespace trainer::cpu::attention {

/// All loops for one instruction set: its kLanes, and kStrip rows of two vectors of sums.
template <class Isa>
struct KernelSet {
  static constexpr Kernels kAll = {.name = Isa::kName,
                                   .lanes = Isa::kLanes,
                                   .multiply = multiply<Isa>,
                                   .transpose = transpose_panel<Isa>,
                                   .transpose_back = transpose_back<Isa>,
                                   .soften = soften<Isa>,
                                   .scale = scale<Isa>,
                                   .weigh = weigh<Isa>,
                                   .differentiate = differentiate<Isa>};
};

}  // namespace trainer::cpu::attention
