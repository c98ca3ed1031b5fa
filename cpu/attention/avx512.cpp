// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention/kernel_set.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace trainer::cpu::attention {

#if defined(__AVX512F__)
namespace {

/// 14 x 2 sums, two vectors of b and an element of a in every lane: 31 of 32 registers.
struct Avx512 {
  using Floats = float __attribute__((vector_size(64)));
  using Words = uint32_t __attribute__((vector_size(64)));
  static constexpr const char* kName = "avx512";
  static constexpr int kLanes = 16, kStrip = 14;

  static TRAINER_INLINE Floats multiply_add(float a, Floats b, Floats c) {
    return _mm512_fmadd_ps(_mm512_set1_ps(a), b, c);
  }
};

}  // namespace

const Kernels* avx512_kernels() {
  return &KernelSet<Avx512>::kAll;
}
#else
const Kernels* avx512_kernels() {
  return nullptr;
}
#endif

}  // namespace trainer::cpu::attention
