// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/dtype.h"
#include "core/graph/ops/table_rows.h"

namespace trainer::cpu {

/// table (rows, width), f32: the sum of dy (tokens, width) over the tokens that read each row, in their order
/// whatever the number of threads; zero for a row that no token reads. dy is f32 or bf16.
void sum_table_rows(const TableRows& row_of, int64_t tokens, int64_t width, DType dtype, const void* dy,
                    int64_t rows, float* table);

}  // namespace trainer::cpu
