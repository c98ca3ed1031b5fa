// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/graph/ops/linear.h"
#include "cuda/handler.h"
#include "cuda/matmul.h"

namespace trainer::cuda {

/// The output of all three products that is the product: y, dx or dw.
constexpr size_t kProduct = 0;
static_assert(Linear::kY == kProduct && LinearBackwardData::kDx == kProduct &&
              LinearBackwardWeights::kDweight == kProduct);

/// The end of a product whose features are no multiple of eight: its last rows of d, or the last terms of its
/// sums. Without them cuBLASLt's kernels are three times as fast. Offsets are elements.
struct ProductRest {
  MatrixProduct product;
  int64_t a = 0, b = 0, d = 0;  ///< d: also of the bias
};

/// One of a linear layer's three products in cuBLASLt's terms, and the operation's tensors that it reads and
/// writes.
struct LinearProblem {
  MatrixProduct product;                   ///< without the rest
  std::optional<ProductRest> rest;         ///< runs first: the product may be added to it
  size_t a = 0, b = 0;                     ///< inputs
  size_t dy = LinearBackwardWeights::kDy;  ///< the input with a sum that is a bias's gradient
  size_t added = 0;                        ///< the input that the product is added to, if there is one
  const Linear* forward = nullptr;
  bool relu = false;  ///< follows the product and its bias
  /// The mask is not needed. A recomputed product has its algorithm and bits only with it, so it goes to the
  /// front of the workspace.
  bool drops_mask = false;

  /// The operation's slot for the bias or its gradient; or nullptr.
  void* const* bias(const Slots& slots) const;
  /// The operation's slot for the matrix that an activation keeps or reads; or nullptr.
  void* const* kept(const Slots& slots) const;
  /// The use of the workspace's front.
  int64_t dropped_bytes() const;
};

LinearProblem linear_problem(const Gpu& gpu, const OpContext& context);

}  // namespace trainer::cuda
