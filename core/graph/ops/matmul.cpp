// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/matmul.h"

#include <fmt/format.h>

#include <utility>

namespace trainer {
namespace {

/// The shape that the product sees: without the transposition.
Shape multiplied(Shape shape, bool is_transposed) {
  if (is_transposed) std::swap(shape[shape.size() - 2], shape[shape.size() - 1]);
  return shape;
}

}  // namespace

void MatMul::describe(AttributeVisitor& visit) const {
  visit("transpose_a", transpose_a);
  visit("transpose_b", transpose_b);
}

std::vector<TensorSpec> MatMul::infer(std::span<const TensorSpec> inputs) const {
  expect_one_type(inputs, {kA, kB});
  const size_t rank = inputs[kA].shape.size();
  expect((rank == 2 || rank == 3) && inputs[kB].shape.size() == rank,
         fmt::format("expected two matrices, or two sequences of matrices (N, T, K), got shapes {} and {}",
                     to_string(inputs[kA].shape), to_string(inputs[kB].shape)));
  const Shape a = multiplied(inputs[kA].shape, transpose_a), b = multiplied(inputs[kB].shape, transpose_b);
  expect(rank == 2 || a[0] == b[0], fmt::format("{} matrices cannot be multiplied by {}", a[0], b[0]));
  expect(a[rank - 1] == b[rank - 2],
         fmt::format("rows of {} elements met columns of {} ({}{} by {}{})", a[rank - 1], b[rank - 2],
                     to_string(inputs[kA].shape), transpose_a ? " transposed" : "",
                     to_string(inputs[kB].shape), transpose_b ? " transposed" : ""));
  Shape y = a;
  y.back() = b.back();
  return {{.shape = y, .dtype = inputs[kA].dtype}};
}

/// With A = op(a) and B = op(b): dA = dy BT, dB = AT dy, and the transposed of these if a factor is.
std::vector<TensorId> MatMul::gradient(const Backward& backward) const {
  const TensorId a = backward.x(kA), b = backward.x(kB), dy = backward.dy[kY];
  std::vector<TensorId> gradients(kInputs, kNone);
  if (backward.wanted[kA]) {
    gradients[kA] = transpose_a ? backward.build.emit<MatMul>({b, dy}, transpose_b, true)
                                : backward.build.emit<MatMul>({dy, b}, false, !transpose_b);
  }
  if (backward.wanted[kB]) {
    gradients[kB] = transpose_b ? backward.build.emit<MatMul>({dy, a}, true, transpose_a)
                                : backward.build.emit<MatMul>({a, dy}, !transpose_a, false);
  }
  return gradients;
}

double MatMul::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const {
  return 2.0 * static_cast<double>(numel(outputs[kY].shape)) *
         static_cast<double>(multiplied(inputs[kA].shape, transpose_a).back());
}

}  // namespace trainer
