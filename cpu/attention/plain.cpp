// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention/kernel_set.h"

namespace trainer::cpu::attention {
namespace {

/// Vectors that the compiler implements with the processor's instructions.
struct Plain {
  using Floats = float __attribute__((vector_size(32)));
  using Words = uint32_t __attribute__((vector_size(32)));
  static constexpr const char* kName = "plain";
  static constexpr int kLanes = 8, kStrip = 3;

  static TRAINER_INLINE Floats multiply_add(float a, Floats b, Floats c) { return a * b + c; }
};

}  // namespace

const Kernels& plain_kernels() {
  return KernelSet<Plain>::kAll;
}

}  // namespace trainer::cpu::attention
