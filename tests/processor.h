// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trainer {

// What tests expect of x86-64 alone. Elsewhere the program's own kernels are the plain ones, which it does
// not prefer, and oneDNN has fewer.
#ifdef __x86_64__
inline constexpr bool kOnX86 = true;

/// Whether oneDNN can at least emulate bf16 here.
inline bool has_avx512() {
  return __builtin_cpu_supports("avx512bw") != 0;
}
#else
inline constexpr bool kOnX86 = false;

inline bool has_avx512() {
  return false;
}
#endif

}  // namespace trainer
