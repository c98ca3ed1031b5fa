// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/math.h"
#include "cuda/launch.h"
#include "cuda/reduce.h"
#include "cuda/storage.h"

namespace trainer::cuda {

// Of one row of logits, by all lanes of one warp together.

__device__ inline int lane() {
  return static_cast<int>(threadIdx.x) % kWarp;
}

struct Softmax {
  float largest, sum;  ///< of the row's logits; of exp(x - largest)
};

template <class T>
__device__ inline Softmax softmax(const T* row, int64_t classes) {
  Softmax result{-INFINITY, 0.0f};
  for (int64_t c = lane(); c < classes; c += kWarp) {
    result.largest = Larger{}(result.largest, to_float(row[c]));
  }
  result.largest = warp_reduce(result.largest, Larger{});
  for (int64_t c = lane(); c < classes; c += kWarp)
    result.sum += math::exp(to_float(row[c]) - result.largest);
  result.sum = warp_sum(result.sum);
  return result;
}

}  // namespace trainer::cuda
