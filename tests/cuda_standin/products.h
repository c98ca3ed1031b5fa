// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <library_types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainer::standin {

size_t element_bytes(cudaDataType_t type);
/// f32, f16 or bf16 as f32.
std::vector<float> load(cudaDataType_t type, const void* from, int64_t count);
/// Rounded to nearest even.
void store(cudaDataType_t type, const std::vector<float>& values, void* to);

/// c (m, n) += a (m, k) b (k, n): dense, row by row, in f32, each sum in the order of k.
void multiply_add(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c);
/// (columns, rows) of a (rows, columns), both row by row.
std::vector<float> transposed(int64_t rows, int64_t columns, const std::vector<float>& a);

}  // namespace trainer::standin
