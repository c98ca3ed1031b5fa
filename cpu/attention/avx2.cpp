// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention/kernel_set.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

namespace trainer::cpu::attention {

#if defined(__AVX2__) && defined(__FMA__)
namespace {

/// 6 x 2 sums, two vectors of b and an element of a in every lane: 15 of 16 registers.
struct Avx2 {
  using Floats = float __attribute__((vector_size(32)));
  using Words = uint32_t __attribute__((vector_size(32)));
  static constexpr const char* kName = "avx2";
  static constexpr int kLanes = 8, kStrip = 6;

  static TRAINER_INLINE Floats multiply_add(float a, Floats b, Floats c) {
    return _mm256_fmadd_ps(_mm256_set1_ps(a), b, c);
  }
};

}  // namespace

const Kernels* avx2_kernels() {
  return &KernelSet<Avx2>::kAll;
}
#else
const Kernels* avx2_kernels() {
  return nullptr;
}
#endif

}  // namespace trainer::cpu::attention
