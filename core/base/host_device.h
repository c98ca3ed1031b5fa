// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function that g++ and nvcc compile from the same text. The only place that checks which compiler
/// runs.
#ifdef __CUDACC__
#define TRAINER_HD __host__ __device__ __forceinline__
#else
#define TRAINER_HD inline __attribute__((always_inline))
#endif
