// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/dtype.h"

namespace trainer {

/// Counts the infinite and NaN values of weights that are written. No file written by this program contains
/// one.
class NonFiniteWeights {
 public:
  /// Values in any order and any number of pieces; i32 and u8 have none.
  void count(const std::string& name, DType dtype, std::span<const std::byte> values);
  /// Throws Error (exit 70) with the first tensor that has some, the file that was not written, and a remedy.
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
