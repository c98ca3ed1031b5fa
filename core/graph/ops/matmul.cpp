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
  expect_one_type(inputs, {0, 1});
  const size_t rank = inputs[0].shape.size();
  expect((rank == 2 || rank == 3) && inputs[1].shape.size() == rank,
         fmt::format("expected two matrices, or two sequences of matrices (N, T, K), got shapes {} and {}",
                     to_string(inputs[0].shape), to_string(inputs[1].shape)));
  const Shape a = multiplied(inputs[0].shape, transpose_a), b = multiplied(inputs[1].shape, transpose_b);
  expect(rank == 2 || a[0] == b[0], fmt::format("{} matrices cannot be multiplied by {}", a[0], b[0]));
  expect(a[rank - 1] == b[rank - 2],
         fmt::format("rows of {} elements met columns of {} ({}{} by {}{})", a[rank - 1], b[rank - 2],
                     to_string(inputs[0].shape), transpose_a ? " transposed" : "", to_string(inputs[1].shape),
                     transpose_b ? " transposed" : ""));
  Shape y = a;
  y.back() = b.back();
  return {{.shape = y, .dtype = inputs[0].dtype}};
}

/// With A = op(a) and B = op(b): dA = dy BT, dB = AT dy, and the transposed of these where a factor is.
std::vector<TensorId> MatMul::gradient(const Backward& backward) const {
  const TensorId a = backward.x(0), b = backward.x(1), dy = backward.dy[0];
  std::vector<TensorId> gradients(2, kNone);
  if (backward.wanted[0]) {
    gradients[0] = transpose_a ? backward.build.emit<MatMul>({b, dy}, transpose_b, true)
                               : backward.build.emit<MatMul>({dy, b}, false, !transpose_b);
  }
  if (backward.wanted[1]) {
    gradients[1] = transpose_b ? backward.build.emit<MatMul>({dy, a}, true, transpose_a)
                               : backward.build.emit<MatMul>({a, dy}, !transpose_a, false);
  }
  return gradients;
}

double MatMul::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const {
  return 2.0 * static_cast<double>(numel(outputs[0].shape)) *
         static_cast<double>(multiplied(inputs[0].shape, transpose_a).back());
}

}  // namespace trainer
