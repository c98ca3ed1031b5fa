// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/dtype.h"

namespace trainer {

/// Counts the infinite and NaN values of weights that are written. No file that this program writes holds
/// such a weight.
class NonFiniteWeights {
 public:
  /// Values in any order and any number of pieces; i32 and u8 have none.
  void count(const std::string& name, DType dtype, std::span<const std::byte> values);
  /// Throws Error (exit 70) naming the first tensor that has some, what was not written, and what to do.
  void refuse_to_save(const std::string& file) const;

 private:
  struct Found {
    std::string name;
    int64_t values = 0, non_finite = 0;
  };
  std::string text() const;

  std::vector<Found> tensors_;
};

}  // namespace trainer
