// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_standin/products.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>

namespace trainer::standin {
namespace {

template <class Low>
std::vector<float> widened(const void* from, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  const Low* low = static_cast<const Low*>(from);
  std::transform(low, low + count, values.begin(), [](Low value) { return static_cast<float>(value); });
  return values;
}

template <class Low>
void narrow(const std::vector<float>& values, void* to) {
  std::transform(values.begin(), values.end(), static_cast<Low*>(to), [](float value) { return Low(value); });
}

}  // namespace

size_t element_bytes(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : 2;
}

std::vector<float> load(cudaDataType_t type, const void* from, int64_t count) {
  if (type == CUDA_R_16F) return widened<__half>(from, count);
  if (type == CUDA_R_16BF) return widened<__nv_bfloat16>(from, count);
  return widened<float>(from, count);
}

void store(cudaDataType_t type, const std::vector<float>& values, void* to) {
  if (type == CUDA_R_16F) return narrow<__half>(values, to);
  if (type == CUDA_R_16BF) return narrow<__nv_bfloat16>(values, to);
  narrow<float>(values, to);
}

// The processor's instructions do not change results: nothing is contracted.
__attribute__((target_clones("avx512f", "avx2", "default"))) void multiply_add(int64_t m, int64_t n,
                                                                               int64_t k, const float* a,
                                                                               const float* b, float* c) {
  // Blocks of b that stay in the cache; four products at a time for each row of c, which is then read once.
  constexpr int64_t kColumns = 256, kDepth = 64, kAtOnce = 4;
  for (int64_t j0 = 0; j0 < n; j0 += kColumns) {
    const int64_t columns = std::min(kColumns, n - j0);
    for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
      const int64_t end = std::min(k, p0 + kDepth);
      for (int64_t i = 0; i < m; ++i) {
        float* __restrict row = c + i * n + j0;
        const float* __restrict factors = a + i * k, * __restrict others = b + j0;
        int64_t p = p0;
        for (; p + kAtOnce <= end; p += kAtOnce) {
          for (int64_t j = 0; j < columns; ++j) {
            float sum = row[j];
            for (int64_t q = p; q < p + kAtOnce; ++q) sum += factors[q] * others[q * n + j];
            row[j] = sum;
          }
        }
        for (; p < end; ++p) {
          for (int64_t j = 0; j < columns; ++j) row[j] += factors[p] * others[p * n + j];
        }
      }
    }
  }
}

std::vector<float> transposed(int64_t rows, int64_t columns, const std::vector<float>& a) {
  std::vector<float> result(a.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j)
      result[static_cast<size_t>(j * rows + i)] = a[static_cast<size_t>(i * columns + j)];
  }
  return result;
}

}  // namespace trainer::standin
