// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// The order of its inputs.
namespace append_input {
constexpr size_t kCache = 0;     ///< (N, S, E)
constexpr size_t kRows = 1;      ///< (N, P, E)
constexpr size_t kFirstRow = 2;  ///< i32 (1): place in the cache of the first of the P rows, 0 or more
}  // namespace append_input

/// The cache with rows [first, first + P) of each sample replaced; what would lie beyond row S is left out.
/// In place it writes the new rows only: keys and values of tokens that were generated
/// (core/layers/attention).
class AppendRows final : public Operation {
 public:
  std::string_view name() const override { return "append_rows"; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::low; }
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool in_place(size_t input, size_t) const override { return input == append_input::kCache; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return true;
  }
};

/// Extents of one use.
struct AppendExtents {
  int64_t samples, cached, rows, row_bytes;
  explicit AppendExtents(std::span<const TensorSpec> inputs);
};

}  // namespace trainer
