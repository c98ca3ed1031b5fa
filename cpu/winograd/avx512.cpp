// SPDX-License-Identifier: Apache-2.0
#include "cpu/winograd/kernel_set.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace trainer::cpu::winograd {

#ifdef __AVX512F__
namespace {

/// 14 x 2 sums, two vectors of weights and an element of v in every lane: 31 of 32 registers.
struct Avx512 {
  using Floats = float __attribute__((vector_size(64)));
  using Words = uint32_t __attribute__((vector_size(64)));
  using Halves = uint16_t __attribute__((vector_size(32)));
  static constexpr const char* kName = "avx512";
  static constexpr int kLanes = 16, kStrip = 14, kInputs = 8;

  static TRAINER_INLINE Floats multiply_add(float a, Floats b, Floats c) {
    return _mm512_fmadd_ps(_mm512_set1_ps(a), b, c);
  }
};

}  // namespace

const Kernels* avx512_kernels(Storage storage) {
  return &kernels_of<Avx512>(storage);
}
#else
const Kernels* avx512_kernels(Storage) {
  return nullptr;
}
#endif

}  // namespace trainer::cpu::winograd
