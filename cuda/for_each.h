// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda/optimizer.h"

namespace trainer::cuda {

/// The work of one kernel on one of many tensors: y of x, and of another if there is one, by the numbers of
/// a lerp.
struct TensorPointers {
  const void *x, *other;
  void* y;
  int64_t count;
  float share, scale;
};

}  // namespace trainer::cuda
