// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trainer {

// Features that tests expect only on x86-64. On other processors the program's own kernels are the plain
// ones, which it does not prefer, and oneDNN has fewer.
#ifdef __x86_64__
inline constexpr bool kOnX86 = true;

/// Whether oneDNN can at least emulate bf16 here.
inline bool has_avx512() {
  return __builtin_cpu_supports("avx512bw") != 0;
}
/// Whether sums of weights of 8 bits are exact here, whatever oneDNN may use.
inline bool has_vnni() {
  return __builtin_cpu_supports("avx512vnni") != 0;
}
#else
inline constexpr bool kOnX86 = false;

inline bool has_vnni() {
  return false;
}

inline bool has_avx512() {
  return false;
}
#endif

}  // namespace trainer
