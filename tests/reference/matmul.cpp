// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/matmul.h"

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

void matmul(const Call& call) {
  const auto& op = call.as<MatMul>();
  const size_t rank = call.shape_out(MatMul::kY).size();
  const int64_t samples = rank == 3 ? call.shape_out(MatMul::kY)[0] : 1;
  const int64_t rows = call.shape_out(MatMul::kY)[rank - 2], columns = call.shape_out(MatMul::kY)[rank - 1];
  const int64_t depth = call.shape_in(MatMul::kA)[op.transpose_a ? rank - 2 : rank - 1];
  for (int64_t n = 0; n < samples; ++n) {
    const double* a = call.in(MatMul::kA) + n * rows * depth;
    const double* b = call.in(MatMul::kB) + n * depth * columns;
    double* y = call.out(MatMul::kY) + n * rows * columns;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          sum += (op.transpose_a ? a[k * rows + i] : a[i * depth + k]) *
                 (op.transpose_b ? b[j * depth + k] : b[k * columns + j]);
        }
        y[i * columns + j] = sum;
      }
    }
  }
}

}  // namespace

void add_matmul(Loops& loops) {
  loops[typeid(MatMul)] = matmul;
}

}  // namespace trainer::reference
