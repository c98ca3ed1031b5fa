// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/winograd/products.h"
#include "cpu/winograd/transforms.h"

namespace trainer::cpu::winograd {

/// All loops for one instruction set and the type `Stored`: kLanes, kStrip tiles and two vectors of sums in
/// the products, kInputs and up to three vectors in those of the weights' gradient.
template <class Isa, class Stored>
struct KernelSet {
  static constexpr Kernels kAll = {.name = Isa::kName,
                                   .lanes = Isa::kLanes,
                                   .strip = Isa::kStrip,
                                   .storage = Stored::kStorage,
                                   .transform_x = transform_x<Isa, Stored>,
                                   .transform_dy = transform_dy<Isa, Stored>,
                                   .transform_w = transform_w<Isa, Stored>,
                                   .multiply = multiply<Isa>,
                                   .transform_y = transform_y<Isa, Stored>,
                                   .accumulate = accumulate<Isa>,
                                   .transform_dw = transform_dw<Isa>};
};

template <class Isa>
const Kernels& kernels_of(Storage storage) {
  return storage == Storage::f32 ? KernelSet<Isa, StoredFloat>::kAll : KernelSet<Isa, StoredBFloat16>::kAll;
}

}  // namespace trainer::cpu::winograd
