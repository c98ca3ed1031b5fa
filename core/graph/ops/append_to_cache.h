// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// The cache with rows [first, first + P) of each sample replaced; rows beyond S are left out.
/// In place it writes the new rows only: keys and values of tokens that were generated
/// (core/layers/attention).
class AppendToCache final : public Operation {
 public:
  enum : size_t {
    kCache,     ///< (N, S, E)
    kRows,      ///< (N, P, E)
    kFirstRow,  ///< i32 (1): place in the cache of the first of the P rows, 0 or more
    kInputs
  };
  enum : size_t { kY };

  std::string_view name() const override { return "append_to_cache"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::low; }
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool in_place(size_t input, size_t) const override { return input == kCache; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return true;
  }
};

/// Sizes of one use.
struct AppendSizes {
  int64_t samples, cached, rows, row_bytes;
  explicit AppendSizes(std::span<const TensorSpec> inputs);
};

}  // namespace trainer
